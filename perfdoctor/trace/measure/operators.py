"""Measures operators: the host time of each without those inside it, and which runtime calls it made."""

from __future__ import annotations

import numpy as np

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trace.measure.by_thread import ByThread
from perfdoctor.trace.measure.nesting import Forest, forests
from perfdoctor.trace.parse.columns import UNKNOWN, Inputs, Ints, Trace


@dataclass(frozen=True)
class Operators:
    """Where runtime calls come from. UNKNOWN where a call was in no operator, or not looked at."""

    innermost: Ints  # (calls,) int32: numbers of operators
    outermost: Ints  # (calls,) int32
    count: Ints  # (names,) int64: operators by name
    self_ns: Ints  # (names,) int64: host time of operators by name, without operators inside them


def operators(trace: Trace, rows: Ints | None, calls: Ints) -> Operators:
    """Measure all operators, or those numbered `rows`, and place the runtime calls numbered `calls`."""
    measured = Operators(
        innermost=np.full(len(trace.calls), UNKNOWN, np.int32),
        outermost=np.full(len(trace.calls), UNKNOWN, np.int32),
        count=np.zeros(len(trace.names), np.int64),
        self_ns=np.zeros(len(trace.names), np.int64),
    )
    by_thread = ByThread(trace.calls, calls)
    for forest in forests(trace.ops, rows):
        name = trace.ops.name[forest.rows]
        measured.count[:] += np.bincount(name, minlength=len(trace.names))
        self_ns = np.bincount(name, weights=forest.self_ns(), minlength=len(trace.names))
        measured.self_ns[:] += self_ns.astype(np.int64)
        _place(forest, *by_thread.of(forest.thread), measured)
    return measured


def _place(forest: Forest, calls: Ints, begin: Ints, measured: Operators) -> None:
    """Place those of a thread's calls that fall into one forest; `begin` says when they begin."""
    first, last = np.searchsorted(begin, (forest.begin_ns[0], forest.end_ns.max())).tolist()
    calls, place = calls[first:last], forest.innermost(begin[first:last])
    inside = place != UNKNOWN
    calls, place = calls[inside], place[inside]
    measured.innermost[calls] = forest.rows[place]
    measured.outermost[calls] = forest.rows[forest.outermost(place)]


def details(trace: Trace, op: Ints) -> Ints:
    """Rows of `trace.details`, (n,) int32, that belong to operators; UNKNOWN where none does."""
    known = trace.details.op
    rows = np.full(len(op), UNKNOWN, np.int32)
    if len(known):
        # Of one type: numpy would convert the whole table for each look-up.
        nearest = np.minimum(np.searchsorted(known, op.astype(known.dtype)), len(known) - 1)
        hit = known[nearest] == op
        rows[hit] = nearest[hit]
    return rows


def input_numbers(trace: Trace, op: Ints) -> Ints:
    """What was recorded of the inputs of operators, (n,) int32 as in OpDetails; UNKNOWN where nothing was."""
    rows = details(trace, op)
    return np.where(rows == UNKNOWN, UNKNOWN, trace.details.inputs[rows]) if len(trace.details) else rows


def recorded_inputs(trace: Trace, op: Ints) -> list[Inputs | None]:
    """What was recorded of the inputs of operators; None where nothing was."""
    numbers = input_numbers(trace, op).tolist()
    return [trace.inputs[number] if number != UNKNOWN else None for number in numbers]
