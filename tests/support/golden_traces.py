"""Real traces as the reference measures them: by the clock of the host, and with what lies outside steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfdoctor.trace.measure.annotations import collect_annotations
from perfdoctor.trace.measure.by_name import events_named
from perfdoctor.trace.measure.device_activity import activity
from perfdoctor.trace.measure.kernel_classes import is_communication
from perfdoctor.trace.parse.columns import DeviceKind, Trace
from perfdoctor.trace.results import Times


def unmarked(trace: Trace) -> Trace:
    """The trace without its steps, so that everything in it counts."""
    return replace(trace, names=["" if name.startswith("ProfilerStep#") else name for name in trace.names])


def between_marks(trace: Trace) -> dict[str, Times]:
    """What the device did from the begin of each step's annotation to its end."""
    steps = collect_annotations(trace).steps()
    if not len(trace.device):
        return {step.name: Times((step.end_ns - step.begin_ns) / 1e3, *[0.0] * 6) for step in steps}
    communication = events_named(trace.names, trace.device.name, is_communication)
    ran = activity(trace.device, np.logical_and(communication, trace.device.kind == DeviceKind.KERNEL))
    return {step.name: ran.times(step.begin_ns, step.end_ns) for step in steps}
