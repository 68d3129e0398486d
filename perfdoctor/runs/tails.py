"""Files of a run as they grow: each look reads only what was added since the last."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perfdoctor.runs import json_text, raw, regular_file
from perfdoctor.runs.directory import Json
from perfdoctor.runs.raw import Rows
from perfdoctor.wire.rows import HEADER_BYTES
from perfdoctor.wire.step_rows import END, OPEN

FEW_ROWS, BLOCK_ROWS = 256, 4096  # read at first, and at once when catching up
LINES_BYTES = 256 * 1024  # of a file of lines that one look reads: it begins so near its end, too
LONGEST_STEP = 64  # updates without one of the leading optimizer, after which another one leads
LEADING = [("optimizer", "<u2"), ("marks", "<u4")]  # what is kept of marks
STRETCHES = 128  # of a run, in which its steps are counted; an even number
FIRST_STRETCH_NS = 10**9


class RowsTail:
    """The rows of one file as they come."""

    def __init__(self, path: Path, layout: np.dtype[np.void]) -> None:
        self._path = path
        self._layout = layout
        self._offset = HEADER_BYTES

    @classmethod
    def of(cls, path: Path, required: Collection[tuple[str, str]] = ()) -> RowsTail | None:
        """The tail of a rows file, or None while it has no header that can be read, with these columns."""
        header = raw.read_header(path)
        layout = raw.layout_of(header, required) if header and not raw.is_newer(header) else None
        return None if layout is None else cls(path, layout)

    def new(self) -> Iterator[Rows]:
        """The rows written since the last time, in blocks. Raises OSError where the file is gone."""
        size, limit = self._layout.itemsize, FEW_ROWS
        with regular_file.opened(self._path) as file:
            while True:
                data = os.pread(file.fileno(), limit * size, self._offset)
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


class CountedSteps:
    """The steps of one process, counted as its rows come, and the rows of its last seconds.

    `least` rows are kept, however long they took.
    """

    def __init__(self, recent_s: float, least: int = 1) -> None:
        self._recent_ns = int(recent_s * 1e9)
        self._least = least
        self.rows = 0
        self.steps = 0
        self.marker = OPEN  # boundaries only: no step yet
        self.recent: Rows | None = None
        self._lead = 1  # the optimizer that steps are counted by
        self._others: Rows = np.zeros(0, LEADING)  # since its last step, the marks of others

    def add(self, rows: Rows) -> None:
        """Count the steps of some more rows."""
        self.rows += len(rows)
        steps = rows[rows["marker"] != END]
        strongest = int(steps["marker"].max(initial=0))
        if strongest > self.marker:
            self.marker, self.steps = strongest, 0  # weaker marks before it were not steps after all
            self._others = self._others[:0]
        if self.marker:
            marks = steps[["optimizer", "marks"]][steps["marker"] == self.marker].astype(LEADING)
            self._count(np.concatenate([self._others, marks]))
        joined = rows if self.recent is None else np.concatenate([self.recent, rows])
        since = int(joined["end_ns"][-1]) - self._recent_ns
        first = min(int(np.argmax(joined["end_ns"] >= since)), max(0, len(joined) - self._least))
        self.recent = joined[first:].copy()

    def _count(self, marks: Rows) -> None:
        """Count marks of the strongest kind; an optimizer that takes over leads from its first one on."""
        while True:
            leading = np.flatnonzero(self._leads(marks))
            borders = np.concatenate([[-1], leading, [len(marks)]])
            apart = np.flatnonzero(np.diff(borders) > LONGEST_STEP)
            if not len(apart):
                self.steps += int(marks["marks"][leading].sum())
                self._others = marks[borders[-2] + 1 :]
                return
            place = int(apart[0])
            self.steps += int(marks["marks"][leading[:place]].sum())
            marks = marks[borders[place] + 1 :]
            self._lead = int(marks["optimizer"][:LONGEST_STEP].min())

    def _leads(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """The rows of the optimizer that steps are counted by, and those of none."""
        leads: npt.NDArray[np.bool_] = (rows["optimizer"] == self._lead) | (rows["optimizer"] == 0)
        return leads

    def counts(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """The rows that stand for a step: with several optimizers, those of the one that leads."""
        counted: npt.NDArray[np.bool_] = (rows["marker"] == self.marker) & self._leads(rows)
        return counted


class StepCurve:
    """How many steps ended in each stretch of a run; stretches get longer as the run does."""

    def __init__(self) -> None:
        self._counts = np.zeros(STRETCHES)
        self._begin_ns: int | None = None
        self._stretch_ns = FIRST_STRETCH_NS
        self._last = 0

    def add(self, end_ns: npt.NDArray[np.int64], marks: npt.NDArray[np.uint32]) -> None:
        """Count steps in the order in which they ended."""
        if not len(end_ns):
            return
        if self._begin_ns is None:
            self._begin_ns = int(end_ns[0])
        since_ns = np.maximum(end_ns - self._begin_ns, 0)
        while since_ns[-1] // self._stretch_ns >= STRETCHES:
            halves = self._counts.reshape(-1, 2).sum(axis=1)
            self._counts = np.concatenate([halves, np.zeros(STRETCHES - len(halves))])
            self._stretch_ns *= 2
        places = np.minimum(since_ns // self._stretch_ns, STRETCHES - 1)
        np.add.at(self._counts, places, marks)
        self._last = int(places[-1])

    @property
    def steps_per_s(self) -> tuple[float, ...]:
        """The rate of each stretch but the last, which still goes on."""
        return tuple((self._counts[: self._last] / (self._stretch_ns / 1e9)).tolist())


class LinesTail:
    """The JSON lines of one file as they come, of a long one from near its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset: int | None = None  # where the next line begins

    def new(self) -> list[Json]:
        """The objects of lines that were finished since the last time; broken lines are left out."""
        try:
            with regular_file.opened(self._path) as file:
                data = self._read_on(file.fileno())
        except OSError:
            return []
        entries = []
        for line in data.split(b"\n"):
            try:
                entry = json_text.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict):
                entries.append(entry)
        return entries

    def _read_on(self, descriptor: int) -> bytes:
        """Whole lines that follow those that were read."""
        size = os.fstat(descriptor).st_size
        begin = max(0, size - LINES_BYTES)
        is_cut = self._offset is None or self._offset < begin
        if self._offset is None or is_cut or self._offset > size:  # first, too far behind, or another file
            self._offset = begin
        data = os.pread(descriptor, LINES_BYTES, self._offset)
        end = data.rfind(b"\n") + 1
        first = data.find(b"\n") + 1 if is_cut and begin else 0
        self._offset += end
        return data[first:end]
