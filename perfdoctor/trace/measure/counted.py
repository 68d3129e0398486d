"""Tells what figures per step are of: what was begun or launched in the judged steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trace.measure.intervals import Spans
from perfdoctor.trace.parse.columns import UNKNOWN, DeviceEvents, Flags, Ints, Trace


@dataclass(frozen=True)
class Counted:
    """What belongs to the judged steps or, without them, everything."""

    ops: Ints | None  # numbers of the operators; None: all
    calls: Flags | None  # (calls,) None: all
    trace: Trace  # with no other work of the device
    launching: Ints  # by which call each of its device events was launched, UNKNOWN if not in the trace

    def of_calls(self, calls: Ints) -> Ints:
        """Those of some calls that count."""
        return calls if self.calls is None else calls[self.calls[calls]]


def counted(trace: Trace, ops: Ints | None, launching: Ints, steps: Spans) -> Counted:
    """What counts of a trace whose operators are numbered `ops`; `launching` as from `launching_calls`.

    A profiler records a little before its first step and behind its last. What the device did belongs to the
    step that launched it, whenever it ran.
    """
    if not len(steps):
        return Counted(ops, None, trace, launching)
    calls = steps.hold(trace.calls.begin_ns)
    ran = np.flatnonzero(
        np.where(launching == UNKNOWN, steps.hold(trace.device.begin_ns), _at(calls, launching))
    )
    begun = steps.hold(trace.ops.begin_ns)
    if not begun.all():
        ops = np.flatnonzero(begun).astype(np.int32) if ops is None else ops[begun[ops]]
    if len(ran) < len(trace.device):
        columns = {name: column[ran] for name, column in vars(trace.device).items()}
        trace, launching = replace(trace, device=DeviceEvents(**columns)), launching[ran]
    return Counted(ops, calls, trace, launching)


def _at(flags: Flags, rows: Ints) -> Flags:
    """(n,) the flags of rows, False where a row is UNKNOWN."""
    return np.append(flags, False)[rows]
