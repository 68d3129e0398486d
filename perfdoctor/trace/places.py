"""Where in the user's code points in time of a trace are, from what was recorded of Python."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfdoctor.model import Location
from perfdoctor.trace.columns import UNKNOWN, Ints, Trace
from perfdoctor.trace.nesting import innermost
from perfdoctor.trace.operators import details
from perfdoctor.trace.userlines import innermost as innermost_line
from perfdoctor.trace.userlines import location


@dataclass(frozen=True)
class Places:
    """Places of n points in time, as numbers that are equal where the places are."""

    function: Ints  # (n,) of the name of the user's innermost function around, UNKNOWN where none
    stack: Ints  # (n,) of the stack recorded with the operator around, UNKNOWN where none


def places(trace: Trace, thread: Ints, at_ns: Ints, inner: Ints, outer: Ints) -> Places:
    """Of points in time by thread, each with the innermost and the outermost operator around it."""
    function = _user_functions(trace, thread, at_ns)
    names = np.full(len(function), UNKNOWN, np.int64)
    known = np.flatnonzero(function != UNKNOWN)
    names[known] = trace.functions.name[function[known]]
    return Places(names, _stacks(trace, inner, outer))


def line(trace: Trace, function: int, stack: int) -> Location | None:
    """The user's line: of the call itself where a stack was recorded, else the first of its function.

    A Python function's event names the line of its `def`.
    """
    called = innermost_line(trace.stacks[stack]) if stack != UNKNOWN else None
    if called or function == UNKNOWN:
        return called
    return location(trace.names[function])


def _user_functions(trace: Trace, thread: Ints, at_ns: Ints) -> Ints:
    """Numbers of the innermost functions of the user's own around points in time, UNKNOWN where none."""
    if not len(trace.functions):
        return np.full(len(at_ns), UNKNOWN, np.int32)
    own = np.zeros(len(trace.names), bool)
    for name in np.unique(trace.functions.name).tolist():
        own[name] = location(trace.names[name]) is not None
    return innermost(trace.functions, np.flatnonzero(own[trace.functions.name]), thread, at_ns)


def _stacks(trace: Trace, inner: Ints, outer: Ints) -> Ints:
    """Numbers of the stacks recorded with operators, of the innermost that has one; UNKNOWN where none."""
    stack = np.full(len(inner), UNKNOWN, np.int64)
    for op in (outer, inner):
        row = details(trace, op)
        known = np.flatnonzero(row != UNKNOWN)
        recorded = trace.details.stack[row[known]]
        stack[known] = np.where(recorded == UNKNOWN, stack[known], recorded)
    return stack
