"""The windows of torch.profiler that a run recorded: which files they are, and what the run says of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from perfdoctor.errors import NotATrace
from perfdoctor.model.dataclass import dataclass
from perfdoctor.runs import directory, records
from perfdoctor.runs.directory import Json
from perfdoctor.runs.types import RankRecords

WINDOW_FILE = re.compile(r"trace\.rank(\d+)\.(\d+)\.json(?:\.gz)?")
PLAIN = "plain"  # a window without shapes and stacks disturbs the script least, so it is preferred


@dataclass(frozen=True)
class WindowFile:
    """The trace that one rank wrote of one window."""

    path: Path
    rank: int
    number: int
    kind: str = PLAIN
    annotations_ns: Mapping[str, int] = field(default_factory=dict)  # when each began, on the run's clock

    @property
    def run(self) -> Path:
        """The run directory."""
        return self.path.parent


def of_file(path: Path) -> WindowFile | None:
    """The window that a file holds; None where it is not one of the run that it lies in."""
    if not WINDOW_FILE.fullmatch(path.name) or not directory.is_run(path.parent):
        return None
    windows = _windows(path.parent, _ranks_with_events(path.parent)).values()
    return next((file for files in windows for file in files if file.path == path), None)


def of_run(run: Path, number: int | None = None) -> list[WindowFile]:
    """One window of a run, of every rank that recorded it: window `number`, else the latest plain one.

    Raises NotATrace where the run has no such window.
    """
    windows = _windows(run, _ranks_with_events(run))
    numbers = sorted(windows)
    if not windows:
        raise NotATrace(f"no trace was recorded in {run.name}", "give a file: perfdoctor trace FILE")
    if number is not None and number not in windows:
        known = ", ".join(map(str, numbers))
        raise NotATrace(f"{run.name} has no window {number}", f"it has these: {known}")
    if number is None:
        most = max(map(len, windows.values()))
        whole = [number for number in numbers if len(windows[number]) == most]
        plain = [number for number in whole if windows[number][0].kind == PLAIN]
        number = (plain or whole)[-1]
    return windows[number]


def of_lowest_rank(run: Path, ranks: Mapping[int, RankRecords]) -> dict[str, Path]:
    """The windows of a run's lowest rank that has any, by kind; the last of each kind."""
    files = [file for _, window in sorted(_windows(run, ranks).items()) for file in window]
    lowest = min((file.rank for file in files), default=None)
    return {file.kind: file.path for file in files if file.rank == lowest}


def _ranks_with_events(run: Path) -> dict[int, RankRecords]:
    """The ranks of a run with their events: what else they recorded may be large, and tells of no window."""
    folder = records.look(run)
    return {rank: folder.told(rank, []) for rank in folder.processes}


def _windows(run: Path, ranks: Mapping[int, RankRecords]) -> dict[int, list[WindowFile]]:
    """The files of each window, by its number."""
    events = {
        (rank, event["index"]): event
        for rank, rank_records in ranks.items()
        for event in rank_records.of("window")
        if isinstance(event.get("index"), int)
    }
    windows: dict[int, list[WindowFile]] = {}
    for path in sorted(run.glob("trace.rank*.json*")):
        name = WINDOW_FILE.fullmatch(path.name)
        if name and not path.with_name(path.name + ".gz").exists():  # both are there while one is packed
            rank, number = int(name[1]), int(name[2])
            event = events.get((rank, number), {})
            files = windows.setdefault(number, [])
            kind = files[0].kind if files else str(event.get("kind", PLAIN))  # all ranks record the same
            files.append(WindowFile(path, rank, number, kind, _annotations_ns(event)))
    return windows


def _annotations_ns(event: Json) -> dict[str, int]:
    begins = event.get("annotation_ns")
    if not isinstance(begins, dict):
        return {}
    return {name: at for name, at in begins.items() if isinstance(at, int) and not isinstance(at, bool)}
