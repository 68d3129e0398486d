"""Operators: their own host time, and which of them made which runtime call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfdoctor.trace.columns import UNKNOWN, Ints, Trace
from perfdoctor.trace.nesting import Nest, nests


@dataclass(frozen=True)
class Operators:
    """Where runtime calls come from. UNKNOWN where a call was in no operator, or was not asked for."""

    innermost: Ints  # (calls,) int32: numbers of operators
    outermost: Ints  # (calls,) int32
    count: Ints  # (names,) int64: operators by name
    own_ns: Ints  # (names,) int64: host time of operators by name, without operators inside them


def operators(trace: Trace, rows: Ints | None, asked: Ints) -> Operators:
    """Look at all operators, or those numbered `rows`, once. `asked`: numbers of the calls to be placed."""
    found = Operators(
        innermost=np.full(len(trace.calls), UNKNOWN, np.int32),
        outermost=np.full(len(trace.calls), UNKNOWN, np.int32),
        count=np.zeros(len(trace.names), np.int64),
        own_ns=np.zeros(len(trace.names), np.int64),
    )
    by_thread: dict[int, Ints] = {}
    for forest in nests(trace.ops, rows):
        name = trace.ops.name[forest.rows]
        found.count[:] += np.bincount(name, minlength=len(trace.names))
        own_ns = np.bincount(name, weights=forest.self_ns(), minlength=len(trace.names))
        found.own_ns[:] += own_ns.astype(np.int64)
        if forest.thread not in by_thread:
            by_thread[forest.thread] = _of_thread(trace, asked, forest.thread)
        _place(trace, forest, by_thread[forest.thread], found)
    return found


def _of_thread(trace: Trace, asked: Ints, thread: int) -> Ints:
    """The calls of one thread by begin."""
    mine: Ints = asked[trace.calls.thread[asked] == thread]
    return mine[np.argsort(trace.calls.begin_ns[mine], kind="stable")]


def _place(trace: Trace, forest: Nest, calls: Ints, found: Operators) -> None:
    """Place those of `calls` that fall into one forest."""
    begin = trace.calls.begin_ns[calls]
    first, last = np.searchsorted(begin, (forest.begin_ns[0], forest.end_ns.max())).tolist()
    calls, place = calls[first:last], forest.innermost(begin[first:last])
    inside = place != UNKNOWN
    calls, place = calls[inside], place[inside]
    found.innermost[calls] = forest.rows[place]
    found.outermost[calls] = forest.rows[forest.outermost(place)]


def details(trace: Trace, op: Ints) -> Ints:
    """Rows of `trace.details`, (n,) int32, that tell more of operators; UNKNOWN where none does."""
    known = trace.details.op
    found = np.full(len(op), UNKNOWN, np.int32)
    if len(known):
        row = np.minimum(np.searchsorted(known, op), len(known) - 1)
        hit = known[row] == op
        found[hit] = row[hit]
    return found
