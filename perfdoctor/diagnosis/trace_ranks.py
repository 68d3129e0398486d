"""The ranks of several traces: where each one's time goes, and whom the others wait for."""

from __future__ import annotations

from collections.abc import Mapping

from perfdoctor.diagnosis.trace_report import TraceReport, attribute_time
from perfdoctor.facts.device.charged import without_waiting
from perfdoctor.facts.device.device import DeviceFacts, device_facts
from perfdoctor.facts.device.judged_steps import judged_steps
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.ranks import Straggler
from perfdoctor.trace.measure.collectives import RankWait
from perfdoctor.trace.results import RankTrace

NS_PER_S = 1e9
US_PER_S = 1e6


@dataclass(frozen=True)
class RankTime:
    """A step of one rank, or all of its trace where no step is marked: what its device or its host did."""

    name: str
    whole_s: float
    device: DeviceFacts | None = None  # what it waits for other ranks is not among its communication
    host: Mapping[Bottleneck, float] | None = None  # shares, where there is no device
    is_matched: bool = False  # its collectives were found on the other ranks
    last: float | None = None  # share of the collectives that it came to last
    is_late: bool = False


def rank_times(report: TraceReport) -> list[RankTime]:
    """Where the time of each rank goes."""
    together = report.together
    waits = together.ranks if together is not None else (None,) * len(report.ranks)
    matched = together.matched if together is not None else 0
    return [
        _rank_time(_name(trace, number), trace, wait, matched, report.straggler)
        for number, (trace, wait) in enumerate(zip(report.ranks, waits, strict=True), 1)
    ]


def _name(trace: RankTrace, number: int) -> str:
    return str(trace.rank) if trace.rank is not None else f"file {number}"


def _rank_time(
    name: str, trace: RankTrace, wait: RankWait | None, matched: int, straggler: Straggler | None
) -> RankTime:
    device = device_facts(trace)
    if device is None:
        attribution = attribute_time(trace, None)
        whole_s = host_step_s(trace) or (trace.end_ns - trace.begin_ns) / NS_PER_S
        return RankTime(name, whole_s, host=attribution.classes if attribution is not None else None)
    if wait is not None and wait.comm_us > 0:
        device = without_waiting(device, wait.waiting_us / wait.comm_us * device.exposed_comm)
    return RankTime(
        name,
        device.window_s / (device.steps or 1),
        device,
        is_matched=wait is not None,
        last=wait.last / matched if wait is not None and matched else None,
        is_late=straggler is not None and wait is not None and wait.rank == straggler.rank,
    )


def host_step_s(trace: RankTrace) -> float | None:
    """The mean judged step of a trace without a device; None where none is marked."""
    steps = judged_steps(trace.steps)
    return sum(step.times.span_us for step in steps) / len(steps) / US_PER_S if steps else None
