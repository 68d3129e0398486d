"""Which files are meant: traces by name, a folder of ranks, or the windows of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfdoctor import recorded
from perfdoctor.errors import NotATrace, TracesDoNotFit
from perfdoctor.recorded import RankRecords
from perfdoctor.rundir import Json
from perfdoctor.trace.results import RankTrace
from perfdoctor.trace.source import BLOCK_BYTES, GZIP_RATIO, Source

ENDINGS = (".json", ".json.gz")
IN_TRACES = (b'"traceEvents"', b'"schemaVersion"', b'"ph"')  # in the first block of one
WINDOW_FILE = re.compile(r"trace\.rank(\d+)\.(\d+)\.json(?:\.gz)?")
PREFERRED = "plain"  # a window without shapes and stacks disturbs the script least


@dataclass(frozen=True)
class TraceFile:
    """A trace, and where it comes from if that is a window of a run."""

    path: Path
    run: Path | None = None
    rank: int | None = None
    window: int | None = None
    marks_ns: Mapping[str, int] = field(default_factory=dict)  # annotation: its begin on the run's clock


def is_run(path: Path) -> bool:
    """Whether a folder is a run directory."""
    return (path / "run.json").is_file() or any(path.glob("steps.rank*.bin"))


def of_file(path: Path) -> TraceFile:
    """A file by its name: a window, if it is one of the run that it lies in."""
    if WINDOW_FILE.fullmatch(path.name) and is_run(path.parent):
        windows = _windows(path.parent, _told(path.parent)).values()
        return next((file for _, files in windows for file in files if file.path == path), TraceFile(path))
    return TraceFile(path)


def of_folder(folder: Path) -> list[TraceFile]:
    """The traces of a folder, by name, without other JSON. Raises NotATrace where there are none."""
    files = sorted(entry for entry in folder.iterdir() if entry.is_file() and entry.name.endswith(ENDINGS))
    traces = [entry for entry in files if _may_be_trace(entry)] or files
    named = [entry for entry in traces if "trace" in entry.name.lower()]
    if not files:
        raise NotATrace(f"{folder} holds no trace", "traces end in .json or .json.gz; give one by its name")
    return [TraceFile(entry) for entry in named or traces]


def _may_be_trace(path: Path) -> bool:
    """Whether a file begins like a trace. One that cannot be read does: reading it says what is wrong."""
    try:
        begin = next(iter(Source(path, BLOCK_BYTES * GZIP_RATIO)), b"")
    except NotATrace:
        return True
    return any(word in begin for word in IN_TRACES)


def of_run(run: Path, window: int | None = None) -> list[TraceFile]:
    """One window of a run, of every rank that recorded it: number `window`, else the latest plain one.

    Raises NotATrace where the run has no such window.
    """
    found = _windows(run, _told(run))
    numbers = sorted(found)
    if not found:
        raise NotATrace(f"{run.name} holds no trace: none was recorded", "Give a file: perfdoctor trace FILE")
    if window is not None and window not in found:
        known = ", ".join(map(str, numbers))
        raise NotATrace(f"{run.name} has no window {window}", f"It has these: {known}")
    if window is None:
        most = max(len(files) for _, files in found.values())
        whole = [number for number in numbers if len(found[number][1]) == most]
        plain = [number for number in whole if found[number][0] == PREFERRED]
        window = (plain or whole)[-1]
    return found[window][1]


def _told(run: Path) -> dict[int, RankRecords]:
    """The ranks of a run with their events: what else they recorded may be large, and tells of no window."""
    folder = recorded.look(run)
    return {rank: folder.told(rank, []) for rank in folder.processes}


def windows_of(run: Path, ranks: Mapping[int, RankRecords]) -> dict[str, Path]:
    """The windows of a run's lowest rank that has any, by kind; the last of each kind."""
    windows = [(kind, file) for _, (kind, files) in sorted(_windows(run, ranks).items()) for file in files]
    lowest = min((file.rank for _, file in windows if file.rank is not None), default=None)
    return {kind: file.path for kind, file in windows if file.rank == lowest}


def _windows(run: Path, ranks: Mapping[int, RankRecords]) -> dict[int, tuple[str, list[TraceFile]]]:
    """The kind of each window and its files, by number."""
    told = {
        (rank, event["index"]): event
        for rank, own in ranks.items()
        for event in own.of("window")
        if isinstance(event.get("index"), int)
    }
    windows: dict[int, tuple[str, list[TraceFile]]] = {}
    for path in sorted(run.glob("trace.rank*.json*")):
        match = WINDOW_FILE.fullmatch(path.name)
        if match and not path.with_name(path.name + ".gz").exists():  # both are there while one is packed
            rank, number = int(match[1]), int(match[2])
            event = told.get((rank, number), {})
            _, files = windows.setdefault(number, (str(event.get("kind", PREFERRED)), []))
            files.append(TraceFile(path, run, rank, number, _marks(event)))
    return windows


def _marks(event: Json) -> dict[str, int]:
    marks = event.get("annotation_ns")
    if not isinstance(marks, dict):
        return {}
    return {name: at for name, at in marks.items() if isinstance(at, int) and not isinstance(at, bool)}


def check(traces: Sequence[RankTrace]) -> None:
    """Raise TracesDoNotFit unless the traces can be those of the ranks of one job."""
    seen: dict[int, RankTrace] = {}
    for trace in traces:
        if trace.rank is None:
            continue
        if trace.rank in seen:
            raise TracesDoNotFit(
                f"{seen[trace.rank].file} and {trace.file} are both of rank {trace.rank}",
                "Give one file for each rank, or hold them against each other with --compare",
            )
        seen[trace.rank] = trace
    marked = [trace for trace in traces if trace.steps]
    for one, other in _pairs(marked):
        mine, theirs = ({step.name for step in trace.steps} for trace in (one, other))
        if not (mine <= theirs or theirs <= mine):
            raise TracesDoNotFit(
                f"{one.file} holds {_range(one)} and {other.file} {_range(other)}: other steps",
                "Give files of one recording, or hold them against each other with --compare",
            )


def _pairs(traces: Sequence[RankTrace]) -> Iterable[tuple[RankTrace, RankTrace]]:
    return ((traces[0], other) for other in traces[1:])


def _range(trace: RankTrace) -> str:
    first, last = trace.steps[0].name, trace.steps[-1].name
    return first if first == last else f"{first} to {last}"
