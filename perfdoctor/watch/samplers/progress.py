"""What a live line shows of a run, read from the tail of its step records."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil

from perfdoctor.model.measured import Marker
from perfdoctor.runs.records import Rows
from perfdoctor.watch.samplers.processes import has_row, read_header, steps_name
from perfdoctor.wire.rows import HEADER_BYTES

RECENT_S = 5.0  # the span that "now" means in a live line
FEW_ROWS, BLOCK_ROWS = 256, 4096  # read at first, and at once when catching up


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


class RowsTail:
    """The rows of one file as they come; each look reads only what was added since the last."""

    def __init__(self, path: Path, layout: np.dtype[np.void]) -> None:
        self._path = path
        self._layout = layout
        self._offset = HEADER_BYTES

    @classmethod
    def of(cls, path: Path) -> RowsTail | None:
        """The tail of a rows file, or None while it has no header that can be read."""
        header = read_header(path)
        if header is None:
            return None
        try:
            layout = np.dtype([(str(name), str(kind)) for name, kind in header["columns"]])
        except (TypeError, ValueError, KeyError):
            return None
        fits = layout.itemsize == header["row_bytes"] and layout.names and layout.names[0] == "end_ns"
        return cls(path, layout) if fits else None

    def new(self) -> Iterator[Rows]:
        """The rows written since the last time, in blocks. Raises OSError where the file is gone."""
        size, limit = self._layout.itemsize, FEW_ROWS
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while True:
                data = os.pread(descriptor, limit * size, self._offset)
                block = np.frombuffer(data[: len(data) // size * size], dtype=self._layout)
                # The file is preallocated: rows are valid up to the first whose end is 0.
                empty = np.flatnonzero(block["end_ns"] == 0)
                valid = block[: int(empty[0])] if len(empty) else block
                self._offset += len(valid) * size
                if len(valid):
                    yield valid
                if len(valid) < limit:
                    return
                limit = BLOCK_ROWS
        finally:
            os.close(descriptor)


class ProgressReader:
    """Follows the steps of the lowest rank: of one process until that is gone, then of the newest one."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._path: Path | None = None
        self._tail: RowsTail | None = None
        self._pid = -1
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._rows = 0
        self._steps = 0
        self._marker = int(Marker.OPEN)  # boundaries only: no step yet
        self._recent: Rows | None = None

    def look(self) -> RunProgress:
        """The progress as of now."""
        with contextlib.suppress(OSError):  # the run directory may go away: what was seen stays true
            if not self._catch_up() and not psutil.pid_exists(self._pid) and self._turn():
                self._catch_up()
        return self._progress()

    def _catch_up(self) -> bool:
        """Read what was added; whether there was anything."""
        before = self._rows
        for rows in self._tail.new() if self._tail is not None else ():
            self._add(rows)
        return self._rows > before

    def _turn(self) -> bool:
        """Turn to the newest process of the lowest rank that trains; whether it is another than before."""
        files: dict[int, list[tuple[float, int, Path]]] = {}
        for path in self._run.glob(steps_name("rank[0-9]*")):
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
                self._begin_anew()
                return True
        return False

    def _add(self, rows: Rows) -> None:
        self._rows += len(rows)
        steps = rows[rows["marker"] != Marker.END]
        strongest = int(steps["marker"].max(initial=0))
        if strongest > self._marker:
            self._marker, self._steps = strongest, 0  # weaker marks before it were not steps after all
        if self._marker:
            self._steps += int(steps["marks"][self._counted(steps)].sum())
        joined = rows if self._recent is None else np.concatenate([self._recent, rows])
        since = int(joined["end_ns"][-1]) - int(RECENT_S * 1e9)
        self._recent = joined[joined["end_ns"] >= since].copy()

    def _counted(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """The rows that stand for a step: with several optimizers, those of the first."""
        counted: npt.NDArray[np.bool_] = (rows["marker"] == self._marker) & (rows["optimizer"] <= 1)
        return counted

    def _progress(self) -> RunProgress:
        if self._recent is None:
            return NOTHING
        recent = self._recent
        seconds = (int(recent["end_ns"][-1]) - int(recent["begin_ns"][0])) / 1e9
        counted = recent[self._counted(recent)]
        marks = int(counted["marks"].sum())
        rate = marks / seconds if self._marker and marks and seconds > 0 else None
        waiting = float(recent["data_wait"].sum()) / 1e9 / seconds if seconds > 0 else None
        marker = Marker(self._marker) if self._marker else None
        waiting = min(1.0, waiting) if waiting is not None else None
        step_ns = int(counted["end_ns"][-1]) if len(counted) else None
        return RunProgress(self._rows, self._steps, marker, rate, waiting, int(recent["end_ns"][-1]), step_ns)


def latest(run: Path) -> RunProgress:
    """The progress of the run at `run` in one look; a caller that asks again keeps a Follower."""
    return ProgressReader(run).look()
