"""Annotations: steps, DataLoader and the user's own, wherever a trace puts them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perfdoctor.trace.columns import HostEvents, Ints, Trace
from perfdoctor.trace.intervals import Spans, union

STEP = re.compile(r"ProfilerStep#\d+")
DATALOADER = "enumerate(DataLoader)"
# What torch itself marks by record_function; torch 1.8 and older say that it is an operator.
MARK = re.compile(r"ProfilerStep#\d+|enumerate\(DataLoader\).*|Optimizer\.(step|zero_grad)#.*")


@dataclass(frozen=True)
class Step:
    """One step of the profiler's own count, as the host saw it."""

    name: str
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class Marks:
    """All annotations of a trace, and the operators that are none."""

    names: list[str]
    events: HostEvents
    ops: Ints | None  # numbers of the real operators; None: all are

    def steps(self) -> list[Step]:
        """The profiler's steps by begin; of several that overlap, as two threads mark them, the first."""
        rows = self.rows([STEP.fullmatch(name) is not None for name in self.names])
        begin, duration = self.events.begin_ns[rows], self.events.duration_ns[rows]
        found = zip(self.events.name[rows].tolist(), begin.tolist(), duration.tolist(), strict=True)
        steps = [Step(self.names[name], first, first + length) for name, first, length in found]
        apart: list[Step] = []
        for step in sorted(steps, key=lambda step: (step.begin_ns, -step.end_ns)):
            if not apart or step.begin_ns + step.end_ns >= 2 * apart[-1].end_ns:  # its middle lies behind
                apart.append(step)
        return apart

    def dataloader(self) -> Ints:
        """Numbers of the events that wait for a DataLoader's next batch."""
        return self.rows([name.startswith(DATALOADER) for name in self.names])

    def spans(self, rows: Ints) -> Spans:
        """The time that annotations cover."""
        begin = self.events.begin_ns[rows]
        return union(begin, begin + self.events.duration_ns[rows])

    def rows(self, wanted: list[bool]) -> Ints:
        """Numbers of the events whose name is wanted: `wanted` holds a flag for each of `names`."""
        return np.flatnonzero(np.array(wanted, bool)[self.events.name])


def marks(trace: Trace) -> Marks:
    """The annotations of a trace."""
    mark = np.array([MARK.fullmatch(name) is not None for name in trace.names], bool)
    disguised = mark[trace.ops.name]
    if not disguised.any():
        return Marks(trace.names, trace.annotations, None)
    rows = np.flatnonzero(disguised)
    both = {
        column: np.concatenate((getattr(trace.annotations, column), getattr(trace.ops, column)[rows]))
        for column in ("begin_ns", "duration_ns", "name", "thread")
    }
    return Marks(trace.names, HostEvents(**both), np.flatnonzero(~disguised).astype(np.int32))
