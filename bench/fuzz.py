"""Damaged files for every reader: only an error that is meant for users, or a page, may come of them.

    python bench/fuzz.py [--inputs 2000] [--seed 1] [--reader NAME] [--only NUMBER] [--keep FOLDER]

Each input is one file of a real run, trace, trial or measurement, damaged by its structure or by bytes
(tests/support/damage.py), read, judged, drawn and written as JSON. An input is told by seed, reader and
number: --only repeats one and shows where it fails, --keep writes down those that do. Ctrl-C goes on with the
next reader. Ends with 1 where anything but a PerfdoctorError came out, or one input took more than 20 s of
CPU time or 4 GB.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, get_args, get_origin

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # samples and damage belong to the tests

from perfdoctor import own_failures, reporting  # noqa: E402
from perfdoctor.cli import retry  # noqa: E402
from perfdoctor.diagnosis import trace_comparison, trace_report  # noqa: E402
from perfdoctor.errors import PerfdoctorError  # noqa: E402
from perfdoctor.facts.data import loader_curve  # noqa: E402
from perfdoctor.render import markdown, terminal  # noqa: E402
from perfdoctor.render.documents import link as link_document  # noqa: E402
from perfdoctor.render.documents import loader as loader_document  # noqa: E402
from perfdoctor.render.documents import report as report_document  # noqa: E402
from perfdoctor.render.documents import trace as trace_document  # noqa: E402
from perfdoctor.render.documents import trial as trial_document  # noqa: E402
from perfdoctor.render.notes import all_worded  # noqa: E402
from perfdoctor.render.page import Page  # noqa: E402
from perfdoctor.render.pages import link as link_page  # noqa: E402
from perfdoctor.render.pages import loader as loader_page  # noqa: E402
from perfdoctor.render.pages import report as report_page  # noqa: E402
from perfdoctor.render.pages import runs as runs_page  # noqa: E402
from perfdoctor.render.pages import trace as trace_page  # noqa: E402
from perfdoctor.render.pages import trial as trial_page  # noqa: E402
from perfdoctor.runs import directory, events, hangs, job, records  # noqa: E402
from perfdoctor.runs.source_lines import SourceLines  # noqa: E402
from perfdoctor.trace import perfetto  # noqa: E402
from perfdoctor.trace.measure import files as trace_files  # noqa: E402
from perfdoctor.trials import trial_file  # noqa: E402
from perfdoctor.watch.machine import link  # noqa: E402
from tests.support import nets, old_runs, trial_results  # noqa: E402
from tests.support.damage import damaged  # noqa: E402

DATA = ROOT / "tests" / "data"
LIMIT_S, WAIT_S = 20, 400  # of CPU time; by the clock, for what waits: others may keep the machine busy
LIMIT_BYTES = 4 << 30
TRACE_BYTES = 10**9
CHEAP = 40  # pages of one small file, for one of a run
EVENTS = 200  # of the recorded trace: enough for each of its kinds
LINE = {"file": str(DATA / "mlp.py"), "line": 5, "function": "main"}

OUTCOMES = ("refused", "left out", "read", "unexpected")

Read = Callable[[Path], frozenset[str]]  # the notes on what was left out; raises PerfdoctorError


class TooSlow(Exception):
    """An input took longer than is allowed."""


@dataclass(frozen=True)
class Reader:
    """Files that are damaged one at a time, and what reads them."""

    name: str
    folder: Path
    names: tuple[str, ...]
    read: Read
    weight: int = 1  # inputs for one of the others: as many as take as long


# ---------------------------------------------------------------- readers


def _draw(page: Page) -> None:
    terminal.draw(page, 100, False)
    markdown.draw(page)


def read_run(path: Path) -> frozenset[str]:
    """What `report`, `runs` and `try` read of a run."""
    facts, report = (directory.read_json(path / name) or {} for name in ("run.json", "report.json"))
    runs_page.table([runs_page.row(path.name, facts, report)], 100)
    job.grouped(directory.kept(path.parent))
    with contextlib.suppress(PerfdoctorError):
        retry.last(str(path))
    judged = reporting.judge(path)
    reporting.keep(judged, report_document.document(judged))
    report_document.dumps(judged)
    _draw(report_page.page(judged, True, 5, None))
    return frozenset(all_worded(judged.notes))


def read_loader(path: Path) -> frozenset[str]:
    """What `perfdoctor loader` reads of its measurement."""
    recorded = records.read(path)
    curve = loader_curve.curve(recorded, SourceLines())
    loader_document.dumps(curve)
    if curve.settings:
        _draw(loader_page.page(curve, "/"))
    return frozenset(all_worded((*curve.notes, *recorded.problems)))


def read_trace(path: Path) -> frozenset[str]:
    """What `perfdoctor trace` reads."""
    (file,) = path.iterdir()
    measured = trace_files.measured([file], TRACE_BYTES, 1)
    trace_files.check(measured)
    report = trace_report.report(measured)
    trace_document.dumps(report)
    _draw(trace_page.page(report, None, True))
    trace_comparison.compare(measured, measured)
    perfetto.merge(file, [], path.parent / "merged.json", TRACE_BYTES)
    return frozenset(filter(None, (one.skipped.because for one in measured)))


def read_trial(path: Path) -> frozenset[str]:
    """What `report --trials` reads."""
    trial = trial_file.read(path)
    trial_document.dumps(trial)
    _draw(trial_page.page(trial, "/", [trial]))
    return frozenset()


def read_net(path: Path) -> frozenset[str]:
    """What a measured link is read from."""
    net = link.read(path)
    link_document.dumps(net)
    _draw(link_page.page(net, "/"))
    return frozenset()


# ---------------------------------------------------------------- samples


def readers(folder: Path) -> Iterator[Reader]:
    """Every reader with a folder of its own, whole files in it."""
    for number, name in enumerate(("loader", "two_ranks")):
        run = _old_run(name, folder / name)
        for file in run.glob("trace.*"):
            file.unlink()  # most of the time would be its
        _complete(run)
        for title, ending in (("rows", ".bin"), ("events", "0.jsonl"), ("stacks", ".txt")):
            yield Reader(f"{title} {number + 1}", run, _ending(run, ending), read_run)
        yield Reader(f"run.json {number + 1}", run, ("run.json", "sharing.json", "report.json"), read_run)
        lines = ("boot.jsonl", "host.jsonl", "agent.jsonl", "ended.jsonl", "stalled.jsonl", "gpu0.jsonl")
        yield Reader(f"samples {number + 1}", run, lines, read_run)
    yield Reader("window", _old_run("loader", folder / "window"), ("trace.rank0.0.json.gz",), read_run)
    yield Reader("loader", _loading(folder / "loading" / "run"), ("events.rank0.jsonl",), read_loader, CHEAP)
    for title, name in (("trace", "trace.json"), ("trace, packed", "trace.json.gz")):
        yield Reader(title, _trace(folder / title, name), (name,), read_trace)
    every = trial_results.trial(*trial_results.ALL, interrupted=True, kept=("--workers", "4"))
    for title, trial in (("trial", every), ("scaling", trial_results.scaled())):
        path = folder / title
        path.mkdir()
        trial_file.keep(replace(trial, path=str(path)), trial_document.document(trial))
        yield Reader(title, path, (trial_file.FILE,), read_trial, CHEAP)
    sizes = [nets.size(4**power, 1e-4 + 4**power / 1e9) for power in range(1, 12)]
    card = {"name": "eth0", "bytes_per_s": 1e9}
    net = nets.kept(folder / "net", *sizes, {"event": "end", "cut": None}, nic=card)
    yield Reader("net", net, (link.FILE, link.MEASURED), read_net, CHEAP)


def _ending(run: Path, ending: str) -> tuple[str, ...]:
    """The files of rank 0 and its like: what is read of a run."""
    return tuple(sorted(path.name for path in run.glob(f"*rank*{ending}")))


def _old_run(name: str, folder: Path) -> Path:
    return old_runs.unpacked(name, folder).rename(folder / "run")


def _complete(run: Path) -> None:
    """Add what old runs lack: an event of each kind, a device, a hang, ranks that failed."""
    told = directory.read_json(run / "run.json") or {}
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
    directory.write_json(run / "run.json", command | {"host": {"usable_cores": 4.0}, "outcome": "ok"})
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


# ---------------------------------------------------------------- reading


def attempt(reader: Reader, seed: int, number: int, known: frozenset[str]) -> tuple[str, str]:
    """What comes of one input: `refused`, `left out`, `read` or `unexpected`; and where it failed."""
    random = Random(f"{seed}/{reader.name}/{number}")
    file = reader.folder / random.choice(reader.names)
    whole = file.read_bytes()
    file.write_bytes(damaged(random, file.name, whole))
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    signal.setitimer(signal.ITIMER_REAL, WAIT_S)
    try:
        return ("left out" if reader.read(reader.folder) - known else "read"), ""
    except PerfdoctorError:
        return "refused", ""
    except Exception:  # noqa: BLE001  # which one is what is asked here
        return "unexpected", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _restore(file, whole)


def _restore(file: Path, whole: bytes) -> None:
    file.write_bytes(whole)


def _too_slow(number: int, frame: object) -> None:
    raise TooSlow(f"more than {LIMIT_S} s of CPU time, or {WAIT_S} s in all")


def _keep(reader: Reader, seed: int, number: int, folder: Path) -> None:
    """Write down the file of one input."""
    random = Random(f"{seed}/{reader.name}/{number}")
    name = random.choice(reader.names)
    folder.mkdir(parents=True, exist_ok=True)
    data = damaged(random, name, (reader.folder / name).read_bytes())
    (folder / f"{reader.name}-{seed}-{number}-{name}").write_bytes(data)


def _damage(
    reader: Reader, inputs: int, words: argparse.Namespace, counts: Counter[str], places: Counter[str]
) -> None:
    """Try one reader's inputs, and print where the first of each kind failed."""
    known = reader.read(reader.folder)
    for number in range(max(1, inputs)) if words.only is None else [words.only]:
        outcome, trace = attempt(reader, words.seed, number, known)
        counts[outcome] += 1
        if trace:
            place = _place(trace)
            places[place] += 1
            if places[place] == 1 or words.only is not None:
                print(f"--- {reader.name} {number}")
                print(trace if words.only is not None else _short(trace))
            if words.keep is not None:
                _keep(reader, words.seed, number, words.keep)


def main() -> int:
    """Damage, read, count and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=2000, help="of all readers together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", help="this one only, or all whose names begin so")
    parser.add_argument("--only", type=int, help="this input only, with its traceback")
    parser.add_argument("--keep", type=Path, help="write down what came out as unexpected")
    words = parser.parse_args()
    os.environ[own_failures.STRICT] = "1"  # what a report contains of a failure is unexpected, too
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, _too_slow)
    warnings.simplefilter("error", RuntimeWarning)  # numpy's would stand on the user's terminal
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, resource.RLIM_INFINITY))
    table = Table("reader", "inputs", *OUTCOMES)
    total: Counter[str] = Counter()
    places: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_STATE_HOME"] = name
        os.chdir(name)
        chosen = [one for one in readers(Path(name)) if one.name.startswith(words.reader or "")]
        each = words.inputs / max(1, sum(one.weight for one in chosen))
        for reader in chosen:
            counts = Counter[str]()
            with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C: the next reader; what was counted counts
                _damage(reader, round(each * reader.weight), words, counts, places)
            table.add_row(reader.name, *_cells(counts))
            total += counts
    table.add_section()
    table.add_row("all", *_cells(total))
    Console(width=100).print(table)
    for place, count in places.most_common():
        print(f"{count:6} {place}")
    return 1 if total["unexpected"] else 0


def _cells(counts: Counter[str]) -> list[str]:
    return [f"{number:,}" for number in (counts.total(), *(counts[name] for name in OUTCOMES))]


def _place(trace: str) -> str:
    """Where it was raised, of our own lines, and what."""
    lines = [line.strip() for line in trace.splitlines()]
    own = [line for line in lines if line.startswith("File") and f"{ROOT}/perfdoctor" in line]
    return f"{own[-1] if own else '?'}  {trace.strip().splitlines()[-1][:100]}".replace(f"{ROOT}/", "")


def _short(trace: str) -> str:
    return "\n".join(trace.rstrip().splitlines()[-7:])[:1500]


if __name__ == "__main__":
    sys.exit(main())
