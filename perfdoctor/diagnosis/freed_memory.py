"""Memory of the device that torch gives back to it again and again, for which the host waits each time."""

from __future__ import annotations

from perfdoctor.diagnosis.verdict import WORTHWHILE
from perfdoctor.facts.device.device import DeviceFacts
from perfdoctor.model.note import Note
from perfdoctor.trace.measure.sync_calls import FREE
from perfdoctor.trace.results import RankTrace

REPEATED = 20  # calls, where no step is marked: fewer are a start-up's, such as of a search for algorithms
US_PER_S = 1e6


def freed_memory(trace: RankTrace, device: DeviceFacts) -> list[Note]:
    """What to say of it where the device idles for a worthwhile share of the judged time."""
    calls = [call for call in trace.blocking if FREE.fullmatch(call.call)]
    count, idle = sum(call.count for call in calls), sum(call.idle_us for call in calls)
    share = min(idle / US_PER_S / device.window_s, 1.0)
    if count < (device.steps or REPEATED) or share < WORTHWHILE:
        return []
    name = max(calls, key=lambda call: call.idle_us).call
    return [Note("freed-memory", {"name": name, "calls": count, "share": share})]
