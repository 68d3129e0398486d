"""Blocking runtime calls, by the operator, the annotation and the user's line that made them."""

from __future__ import annotations

import numpy as np

from perfdoctor.model import Location
from perfdoctor.trace.columns import UNKNOWN, Ints, Trace
from perfdoctor.trace.intervals import NS
from perfdoctor.trace.marks import STEP, Marks
from perfdoctor.trace.nesting import innermost
from perfdoctor.trace.operators import Operators, details
from perfdoctor.trace.results import BlockingCalls
from perfdoctor.trace.userlines import innermost as innermost_line
from perfdoctor.trace.userlines import location


def blocking(
    trace: Trace, marks: Marks, ops: Operators, calls: Ints, idle_ns: Ints
) -> tuple[BlockingCalls, ...]:
    """The blocking calls numbered `calls`, put together where they came from the same place; longest first.

    `idle_ns`, one for each call of the trace: how long the device stood idle for it.
    """
    if not len(calls):
        return ()
    thread, at_ns = trace.calls.thread[calls], trace.calls.begin_ns[calls]
    wanted = [STEP.fullmatch(name) is None for name in trace.names]
    mark = innermost(marks.events, marks.rows(wanted), thread, at_ns)
    outer = ops.outermost[calls]
    function = _user_functions(trace, thread, at_ns)
    stack = _stacks(trace, ops.innermost[calls], outer)
    keys = np.stack((
        trace.calls.name[calls],
        _name(trace.ops.name, outer),
        _name(marks.events.name, mark),
        _name(trace.functions.name, function),
        stack,
    )).astype(np.int64)  # fmt: skip
    kinds, which, count = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    which = which.reshape(-1)
    us = np.bincount(which, weights=trace.calls.duration_ns[calls]) / NS
    idle_us = np.bincount(which, weights=idle_ns[calls]) / NS
    found = [
        BlockingCalls(
            call=trace.names[call],
            op=_text(trace, op),
            at=_line(trace, function, stack),
            annotation=_text(trace, annotation),
            count=int(count[number]),
            us=float(us[number]),
            idle_us=float(idle_us[number]),
        )
        for number, (call, op, annotation, function, stack) in enumerate(kinds.T.tolist())
    ]
    return tuple(sorted(found, key=lambda use: (-use.us, use.call)))


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


def _name(names: Ints, row: Ints) -> Ints:
    """The name's number of each event, UNKNOWN where there is none."""
    if not len(names):
        return np.full(len(row), UNKNOWN, np.int64)
    return np.where(row == UNKNOWN, UNKNOWN, names[row].astype(np.int64))


def _text(trace: Trace, name: int) -> str | None:
    return None if name == UNKNOWN else trace.names[name]


def _line(trace: Trace, function: int, stack: int) -> Location | None:
    """The user's line: of the call itself where a stack was recorded, else the first of its function.

    A Python function's event names the line of its `def`.
    """
    called = innermost_line(trace.stacks[stack]) if stack != UNKNOWN else None
    if called or function == UNKNOWN:
        return called
    return location(trace.names[function])
