"""Tells when the device worked at each step: later than the host marks it, where that runs ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from perfdoctor.trace.measure.annotations import ProfilerStep, edges
from perfdoctor.trace.parse.columns import UNKNOWN, Ints, Trace


def device_steps(trace: Trace, launching: Ints, steps: Sequence[ProfilerStep]) -> list[ProfilerStep]:
    """The steps by the device's time; `launching` as from `launching_calls`.

    Where the host reaches the end of a step, the device may have work left that was launched before: the step
    lasts until that is done, and so long does the next one not begin. A device that keeps up has the host's.
    """
    known = np.flatnonzero(launching != UNKNOWN)
    if not len(known) or not steps:
        return list(steps)
    launched_ns = trace.calls.begin_ns[launching[known]]
    order = np.argsort(launched_ns, kind="stable")
    launched_ns, done_ns = launched_ns[order], np.maximum.accumulate(trace.device.ends_ns(known)[order])

    def done(at_ns: Ints) -> list[int]:
        before = np.searchsorted(launched_ns, at_ns)
        at_ns = np.where(before > 0, np.maximum(at_ns, done_ns[before - 1]), at_ns)
        return [int(time_ns) for time_ns in at_ns]

    begin_ns, end_ns = map(done, edges(steps))
    worked = [
        replace(step, begin_ns=begin, end_ns=end)
        for step, begin, end in zip(steps, begin_ns, end_ns, strict=True)
    ]
    # Nothing is left of them where work from before outlasts them all.
    return worked if any(step.begin_ns < step.end_ns for step in worked) else list(steps)
