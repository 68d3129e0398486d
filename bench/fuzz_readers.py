"""The readers that `fuzz.py` tries: what each reads, what is made of that, and whole files to damage."""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_origin

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # samples and damage belong to the tests

from fuzz_siblings import declared_events  # noqa: E402

from perfdoctor import reporting  # noqa: E402
from perfdoctor.cli import retry  # noqa: E402
from perfdoctor.diagnosis import trace_comparison, trace_report  # noqa: E402
from perfdoctor.errors import PerfdoctorError  # noqa: E402
from perfdoctor.facts.data import loader_curve  # noqa: E402
from perfdoctor.model.note import Remark  # noqa: E402
from perfdoctor.render import markdown, terminal  # noqa: E402
from perfdoctor.render.documents import link as link_document  # noqa: E402
from perfdoctor.render.documents import loader as loader_document  # noqa: E402
from perfdoctor.render.documents import report as report_document  # noqa: E402
from perfdoctor.render.documents import trace as trace_document  # noqa: E402
from perfdoctor.render.documents import trial as trial_document  # noqa: E402
from perfdoctor.render.page import Page  # noqa: E402
from perfdoctor.render.pages import link as link_page  # noqa: E402
from perfdoctor.render.pages import loader as loader_page  # noqa: E402
from perfdoctor.render.pages import report as report_page  # noqa: E402
from perfdoctor.render.pages import runs as runs_page  # noqa: E402
from perfdoctor.render.pages import trace as trace_page  # noqa: E402
from perfdoctor.render.pages import trial as trial_page  # noqa: E402
from perfdoctor.runs import directory, events, hangs, job, records, windows  # noqa: E402
from perfdoctor.runs.source_lines import SourceLines  # noqa: E402
from perfdoctor.runs.types import RankRecords  # noqa: E402
from perfdoctor.trace import perfetto  # noqa: E402
from perfdoctor.trace.measure import files as trace_files  # noqa: E402
from perfdoctor.trials import trial_file  # noqa: E402
from perfdoctor.watch.machine import link  # noqa: E402
from tests.support import nets, old_runs, trial_results  # noqa: E402

DATA = ROOT / "tests" / "data"
TRACE_BYTES = 10**9
SMALL, PART, WHOLE = 15, 5, 2  # inputs of one small file, one file of a run, one trial, for one trace
EVENTS = 200  # of the recorded trace: enough for each of its kinds
LINE = {"file": str(DATA / "mlp.py"), "line": 5, "function": "main"}


@dataclass(frozen=True)
class Content:
    """What was read."""

    facts: Any
    remarks: tuple[Remark, ...] = ()  # what reading it met


@dataclass(frozen=True)
class Reader:
    """Files that are damaged one at a time, what reads them, and what is made of that.

    Both raise PerfdoctorError for what they refuse. `judge` judges, draws and writes; it returns more notes.
    """

    name: str
    folder: Path
    names: tuple[str, ...]
    read: Callable[[Path], Content]
    judge: Callable[[Path, Any], tuple[Remark, ...]]
    weight: int = 1  # inputs, for one of the slowest
    written: tuple[str, ...] = ()  # files of the folder that judging writes


# ---------------------------------------------------------------- readers


def _draw(page: Page) -> None:
    terminal.draw(page, 100, False)
    markdown.draw(page)


def read_run(path: Path) -> Content:
    """What `report`, `runs` and `try` read of a run: of each rank, too, where there are several."""
    run, kept = (directory.read_json(path / name) or {} for name in (directory.RUN, directory.REPORT))
    again = None
    with contextlib.suppress(PerfdoctorError):
        again = retry.last(str(path))
    joined = job.of(path)
    shown = joined.shown()
    ranks: list[RankRecords] = []
    together = joined.read(ranks.append) if joined.world > 1 else None
    shown = replace(shown, ranks={rank: _as_facts_read(own) for rank, own in shown.ranks.items()})
    measured, notes = trace_files.measured_windows(windows.of_lowest_rank(shown.path, shown.ranks))
    remarks = (*shown.problems, *joined.notes, *(together.notes if together is not None else ()), *notes)
    return Content((run, kept, again, shown, list(map(_as_facts_read, ranks)), together, measured), remarks)


def _as_facts_read(own: RankRecords) -> RankRecords:
    """The rank with its events as facts read them: by their declarations, without what is of another type."""
    return replace(own, events=declared_events(own.events))


def judge_run(path: Path, facts: Any) -> tuple[Remark, ...]:
    """What `report` and `runs` make of a run."""
    run, kept = facts[:2]
    runs_page.table([runs_page.row(path.name, run, kept)], 100)
    job.grouped(directory.kept(path.parent))
    judged = reporting.judge(path)
    reporting.keep(judged, report_document.document(judged))
    report_document.dumps(judged)
    _draw(report_page.page(judged, True, 5, None))
    return judged.notes


def read_loader(path: Path) -> Content:
    """What `perfdoctor loader` reads of its measurement."""
    recorded = records.read(path)
    return Content(recorded, recorded.problems)


def judge_loader(path: Path, recorded: Any) -> tuple[Remark, ...]:
    """The curve, and its page."""
    curve = loader_curve.curve(recorded, SourceLines())
    loader_document.dumps(curve)
    if curve.settings:
        _draw(loader_page.page(curve, "/"))
    return curve.notes


def read_trace(path: Path) -> Content:
    """What `perfdoctor trace` reads; `--out` reads the file once more, which is written with that."""
    (file,) = path.iterdir()
    measured = trace_files.measured([file], TRACE_BYTES, 1)
    perfetto.merge(file, [], path.parent / "merged.json", TRACE_BYTES)
    return Content(measured, tuple(one.skipped.because for one in measured if one.skipped.because))


def judge_trace(path: Path, measured: Any) -> tuple[Remark, ...]:
    """The report of the trace, its page, and what it is compared with: itself."""
    trace_files.check(measured)
    report = trace_report.report(measured)
    trace_document.dumps(report)
    _draw(trace_page.page(report, None, True))
    trace_comparison.compare(measured, measured)
    return ()


def read_trial(path: Path) -> Content:
    """What `report --trials` reads."""
    return Content(trial_file.read(path))


def judge_trial(path: Path, trial: Any) -> tuple[Remark, ...]:
    """The document and the page of a trial."""
    trial_document.dumps(trial)
    _draw(trial_page.page(trial, "/", [trial]))
    return ()


def read_net(path: Path) -> Content:
    """What a measured link is read from."""
    return Content(link.read(path))


def judge_net(path: Path, net: Any) -> tuple[Remark, ...]:
    """The document and the page of a link."""
    link_document.dumps(net)
    _draw(link_page.page(net, "/"))
    return ()


# ---------------------------------------------------------------- samples


def readers(folder: Path) -> Iterator[Reader]:
    """Every reader with a folder of its own, whole files in it."""
    for number, name in enumerate(("loader", "two_ranks")):
        run = _old_run(name, folder / name)
        for file in run.glob("trace.*"):
            file.unlink()  # most of the time would be its
        _complete(run)
        for title, ending in (("rows", ".bin"), ("events", "0.jsonl"), ("stacks", ".txt")):
            yield _of_run(f"{title} {number + 1}", run, _ending(run, ending))
        yield _of_run(f"run.json {number + 1}", run, ("run.json", "sharing.json", "report.json"))
        lines = ("boot.jsonl", "host.jsonl", "agent.jsonl", "ended.jsonl", "stalled.jsonl", "gpu0.jsonl")
        yield _of_run(f"samples {number + 1}", run, lines)
    run = _old_run("loader", folder / "window")
    _judged(run)
    yield _of_run("window", run, ("trace.rank0.0.json.gz",), 1)
    loading = _loading(folder / "loading" / "run")
    yield Reader("loader", loading, ("events.rank0.jsonl",), read_loader, judge_loader, SMALL)
    for title, name in (("trace", "trace.json"), ("trace, packed", "trace.json.gz")):
        yield Reader(title, _trace(folder / title, name), (name,), read_trace, judge_trace)
    every = trial_results.trial(*trial_results.ALL, interrupted=True, kept=("--workers", "4"))
    for title, trial in (("trial", every), ("scaling", trial_results.scaled())):
        path = folder / title
        path.mkdir()
        trial_file.keep(replace(trial, path=str(path)), trial_document.document(trial))
        yield Reader(title, path, (trial_file.FILE,), read_trial, judge_trial, WHOLE)
    sizes = [nets.size(4**power, 1e-4 + 4**power / 1e9) for power in range(1, 12)]
    card = {"name": "eth0", "bytes_per_s": 1e9}
    net = nets.kept(folder / "net", *sizes, {"event": "end", "cut": None}, nic=card)
    yield Reader("net", net, (link.FILE, link.MEASURED), read_net, judge_net, SMALL)


def _of_run(name: str, run: Path, names: tuple[str, ...], weight: int = PART) -> Reader:
    return Reader(name, run, names, read_run, judge_run, weight, (directory.REPORT,))


def _ending(run: Path, ending: str) -> tuple[str, ...]:
    """The files of rank 0 and its like: what is read of a run."""
    return tuple(sorted(path.name for path in run.glob(f"*rank*{ending}")))


def _old_run(name: str, folder: Path) -> Path:
    return old_runs.unpacked(name, folder).rename(folder / "run")


def _complete(run: Path) -> None:
    """Add what old runs lack: an event of each kind, a device, a hang, ranks that failed."""
    told = directory.read_json(run / directory.RUN) or {}
    boots = [json.loads(line) for line in (run / "boot.jsonl").read_text().splitlines()]
    common = {"pid": boots[-1]["pid"], "t_ns": (told["begin_ns"] + told["end_ns"]) // 2}
    _append(
        run / "events.rank0.jsonl", [{"event": name} | common | fields for name, fields in _every_event()]
    )
    hung = hangs.HungRank(0, 7, 60.0, inside=hangs.Inside("all_reduce", 60.0, 3, 5))
    _append(run / "stalled.jsonl", [hangs.entry(hung)])
    _append(run / "agent.jsonl", [{"event": "rank_failed", "exitcode": 7} | common])
    _append(run / "ended.jsonl", [common])
    gpu = {"name": "A100", "index": 0, "utilisation": 0.5, "memory_used_bytes": 10**9, "reasons": {}}
    gpu |= {
        "memory_total_bytes": 8 * 10**10,
        "sm_clock_mhz": 900,
        "sm_clock_max_mhz": 1410,
        "throttle": ["power cap"],
    }
    begin_ns = told["begin_ns"]
    _append(run / "gpu0.jsonl", [{"t_ns": begin_ns + number * 10**9} | gpu for number in range(30)])
    sharing = {"workers": {"1": 1.2, "2": 1.5}, "training": {"1": 1.1, "2": 1.4}, "cores": 2.0}
    directory.write_json(run / "sharing.json", sharing)
    _judged(run)


def _judged(run: Path) -> None:
    """Leave its report with the run, as perfdoctor does."""
    judged = reporting.judge(run)
    reporting.keep(judged, report_document.document(judged))


def _append(path: Path, entries: list[dict[str, Any]]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(entry) + "\n" for entry in entries)


def _every_event() -> Iterator[tuple[str, dict[str, Any]]]:
    """An event of each declared kind, with some value in each field."""
    for kind in events.declared():
        yield kind.event, {name.rstrip("_"): _example(hint) for name, hint in events.hints(kind).items()}


def _example(hint: Any) -> Any:
    for part in get_args(hint):
        if get_origin(hint) not in (list, dict) and part is not type(None):
            return _example(part)
    if get_origin(hint) is list:
        return [_example(get_args(hint)[0])] * 2
    if get_origin(hint) is dict or hint is dict:
        return dict(LINE)
    return {int: 3, float: 0.5, bool: True, str: "x"}.get(hint, dict(LINE))


def _loading(run: Path) -> Path:
    """A measurement of a loader, as its process writes it."""
    run.mkdir(parents=True)
    command = {"schema": directory.SCHEMA, "command": ["python", "train.py"], "cwd": "/", "exit_code": 0}
    directory.write_json(run / directory.RUN, command | {"host": {"usable_cores": 4.0}, "outcome": "ok"})
    loader = {"event": "loader", "id": 1, "num_workers": 0, "batch_size": 8, "dataset": "Items", "at": LINE}
    begun = {"event": "loading", "id": 1, "built": 1, "ranks": 1, "seconds": 10.0, "same_dataset": [1]}
    rates = [("warm", 0, 10), ("warm", 1, 9), ("warm", 2, 20), ("cold", 2, 15), ("synthetic", 1, 40)]
    times = {
        "workers_cpu_s": 0.3,
        "seconds": 1.0,
        "block_s": [0.25] * 4,
        "samples": 8.0,
        "bytes": 1000.0,
        "cpu_s": 0.1,
    }
    measured = [
        {"event": "loading_stretch", "kind": kind, "workers": workers, "batches": rate} | times
        for kind, workers, rate in rates
    ]  # fmt: skip
    _append(
        run / "events.rank0.jsonl", [loader, begun, *measured, {"event": "loading_end", "outcome": "whole"}]
    )
    return run


def _trace(folder: Path, name: str) -> Path:
    """The beginning of a recorded trace."""
    folder.mkdir(parents=True)
    document = json.loads(gzip.decompress((DATA / "mlp.shapes.json.gz").read_bytes()))
    document["traceEvents"] = document["traceEvents"][:EVENTS]
    data = json.dumps(document, indent=2).encode()
    folder = folder / "in"
    folder.mkdir()
    (folder / name).write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)
    return folder
