"""Finds the user's code at points in time of a trace, from what was recorded of Python."""

from __future__ import annotations

import numpy as np

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.trace.measure.by_name import events_named
from perfdoctor.trace.measure.nesting import innermost
from perfdoctor.trace.measure.operators import details
from perfdoctor.trace.measure.user_lines import innermost_line, location
from perfdoctor.trace.parse.columns import UNKNOWN, Ints, Trace


@dataclass(frozen=True)
class Places:
    """Places of n points in time, as numbers that are equal where the places are."""

    function: Ints  # (n,) of the name of the user's innermost function around, UNKNOWN where none
    stack: Ints  # (n,) of the stack recorded with the operator around, UNKNOWN where none

    def lines(self, trace: Trace) -> list[Location | None]:
        """The user's line of each."""
        pairs = zip(self.function.tolist(), self.stack.tolist(), strict=True)
        return [line(trace, function, stack) for function, stack in pairs]


def places(trace: Trace, thread: Ints, at_ns: Ints, inner: Ints, outer: Ints) -> Places:
    """The places of points in time of threads, each with the innermost and outermost operator around it."""
    function = _user_functions(trace, thread, at_ns)
    names = np.full(len(function), UNKNOWN, np.int64)
    known = np.flatnonzero(function != UNKNOWN)
    names[known] = trace.functions.name[function[known]]
    return Places(names, _stacks(trace, inner, outer))


def line(trace: Trace, function: int, stack: int) -> Location | None:
    """The user's line: of the call itself where a stack was recorded, else the first of its function.

    A Python function's event names the line of its `def`.
    """
    at = innermost_line(trace.stacks[stack]) if stack != UNKNOWN else None
    return location(trace.names[function]) if at is None and function != UNKNOWN else at


def _user_functions(trace: Trace, thread: Ints, at_ns: Ints) -> Ints:
    """Numbers of the user's innermost functions around points in time, UNKNOWN where none."""
    if not len(trace.functions):
        return np.full(len(at_ns), UNKNOWN, np.int32)
    users = events_named(trace.names, trace.functions.name, location)
    return innermost(trace.functions, np.flatnonzero(users), thread, at_ns)


def _stacks(trace: Trace, inner: Ints, outer: Ints) -> Ints:
    """Numbers of the stacks recorded with operators, of the innermost that has one; UNKNOWN where none."""
    stack = np.full(len(inner), UNKNOWN, np.int64)
    for op in (outer, inner):
        row = details(trace, op)
        known = np.flatnonzero(row != UNKNOWN)
        recorded = trace.details.stack[row[known]]
        stack[known] = np.where(recorded == UNKNOWN, stack[known], recorded)
    return stack
