"""What a live line shows of a run, read from the tail of its step records."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Marker
from perfdoctor.runs.tails import CountedSteps, RowsTail
from perfdoctor.watch.descendants import lives
from perfdoctor.watch.samplers.processes import has_row, read_header
from perfdoctor.wire import names

RECENT_S = 5.0  # the span that "now" means in a live line


@dataclass(frozen=True)
class RunProgress:
    """How far a run has come. Rates are over the last seconds, None while there are too few rows."""

    rows: int  # rows written
    steps: int  # what they stand for: marks of the strongest kind
    marker: Marker | None  # that kind
    steps_per_s: float | None
    waiting_share: float | None  # share of the last seconds spent waiting for data
    last_ns: int | None  # end of the last row
    step_ns: int | None = None  # end of the last row that stands for a step


NOTHING = RunProgress(0, 0, None, None, None, None)


class ProgressReader:
    """Follows the steps of the lowest rank: of one process until that is gone, then of the newest one."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._path: Path | None = None
        self._tail: RowsTail | None = None
        self._pid = -1
        self._counted = CountedSteps(RECENT_S)

    def look(self) -> RunProgress:
        """The progress as of now."""
        with contextlib.suppress(OSError):  # the run directory may go away: what was seen stays true
            if not self._catch_up() and not self._lives() and self._turn():
                self._catch_up()
        return self._progress()

    def _lives(self) -> bool:
        """Whether the process that is followed does; one that its parent has not asked for yet has ended."""
        with contextlib.suppress(psutil.Error, ValueError):  # there is none with that number
            return lives(psutil.Process(self._pid))
        return False

    def _catch_up(self) -> bool:
        """Read what was added; whether there was anything."""
        before = self._counted.rows
        for rows in self._tail.new() if self._tail is not None else ():
            self._counted.add(rows)
        return self._counted.rows > before

    def _turn(self) -> bool:
        """Turn to the newest process of the lowest rank that trains; whether it is another than before."""
        files: dict[int, list[tuple[float, int, Path]]] = {}
        for path in self._run.glob(names.rows_file("steps", "rank[0-9]*")):
            header = read_header(path)
            if header is not None:
                opened_s = header.get("opened_epoch_s", 0.0) if has_row(path) else -1.0
                files.setdefault(int(header["rank"]), []).append((opened_s, int(header["pid"]), path))
        for _, processes in sorted(files.items()):
            _, pid, path = max(processes)
            tail = RowsTail.of(path)
            if tail is not None:
                if path == self._path:
                    return False
                self._path, self._tail, self._pid = path, tail, pid
                self._counted = CountedSteps(RECENT_S)
                return True
        return False

    def _progress(self) -> RunProgress:
        seen, recent = self._counted, self._counted.recent
        if recent is None:
            return NOTHING
        seconds = (int(recent["end_ns"][-1]) - int(recent["begin_ns"][0])) / 1e9
        counted = recent[seen.counts(recent)]
        marks = int(counted["marks"].sum())
        rate = marks / seconds if seen.marker and marks and seconds > 0 else None
        waiting = float(recent["data_wait"].sum()) / 1e9 / seconds if seconds > 0 else None
        marker = Marker(seen.marker) if seen.marker else None
        waiting = min(1.0, waiting) if waiting is not None else None
        step_ns = int(counted["end_ns"][-1]) if len(counted) else None
        last_ns = int(recent["end_ns"][-1])
        return RunProgress(seen.rows, seen.steps, marker, rate, waiting, last_ns, step_ns)


def latest(run: Path) -> RunProgress:
    """The progress of the run at `run` in one look; a caller that asks again keeps a ProgressReader."""
    return ProgressReader(run).look()
