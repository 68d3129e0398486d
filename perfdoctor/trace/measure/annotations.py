"""Collects annotations: steps, waits for a DataLoader and the user's own, wherever a trace puts them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trace.measure.by_name import events_named
from perfdoctor.trace.measure.intervals import Spans, covered
from perfdoctor.trace.parse.columns import HostEvents, Ints, Trace

STEP = re.compile(r"ProfilerStep#\d+")
DATALOADER = "enumerate(DataLoader)"
# What torch itself annotates by record_function; torch 1.8 and older say that it is an operator.
BY_TORCH = re.compile(r"ProfilerStep#\d+|enumerate\(DataLoader\).*|Optimizer\.(step|zero_grad)#.*")


@dataclass(frozen=True)
class ProfilerStep:
    """One step of the profiler's own count, as the host saw it."""

    name: str
    begin_ns: int
    end_ns: int


def edges(steps: Sequence[ProfilerStep]) -> tuple[Ints, Ints]:
    """When each of n steps begins and ends: two (n,) int64."""
    begin = np.array([step.begin_ns for step in steps], np.int64)
    return begin, np.array([step.end_ns for step in steps], np.int64)


@dataclass(frozen=True)
class Annotations:
    """All annotations of a trace, and the operators that are no annotations."""

    names: list[str]
    events: HostEvents
    ops: Ints | None  # numbers of the real operators; None: all are

    def steps(self) -> list[ProfilerStep]:
        """The profiler's steps by begin; of several that overlap, as two threads mark them, the first.

        One without a duration marks nothing: its end was never seen.
        """
        rows = self.rows(STEP.fullmatch)
        columns = (self.events.name[rows], self.events.begin_ns[rows], self.events.ends_ns(rows))
        entries = zip(*(column.tolist() for column in columns), strict=True)
        steps = [ProfilerStep(self.names[name], begin, end) for name, begin, end in entries if begin < end]
        apart: list[ProfilerStep] = []
        for step in sorted(steps, key=lambda step: (step.begin_ns, -step.end_ns)):
            if not apart or step.begin_ns + step.end_ns >= 2 * apart[-1].end_ns:  # its middle lies behind
                apart.append(step)
        return apart

    def dataloader(self) -> Ints:
        """Numbers of the events that wait for a DataLoader's next batch."""
        return self.rows(lambda name: name.startswith(DATALOADER))

    def spans(self, rows: Ints) -> Spans:
        """The time that annotations cover."""
        return covered(self.events, rows)

    def rows(self, fits: Callable[[str], object]) -> Ints:
        """Numbers of the events whose name fits."""
        return np.flatnonzero(events_named(self.names, self.events.name, fits))


def collect_annotations(trace: Trace) -> Annotations:
    """Collect the annotations of a trace."""
    disguised = events_named(trace.names, trace.ops.name, BY_TORCH.fullmatch)
    if not disguised.any():
        return Annotations(trace.names, trace.annotations, None)
    rows = np.flatnonzero(disguised)
    columns = {
        column: np.concatenate((getattr(trace.annotations, column), getattr(trace.ops, column)[rows]))
        for column in ("begin_ns", "duration_ns", "name", "thread")
    }
    return Annotations(trace.names, HostEvents(**columns), np.flatnonzero(~disguised).astype(np.int32))
