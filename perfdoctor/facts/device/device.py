"""Turns a measured trace into facts on the device that tips can ask for. Shares are of the judged time.

The judged time is that of the steps, where the trace marks them, without one that warms up; else the span of
the device's work. Figures of all judged steps (kernels, copies, waits) are scaled to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from perfdoctor.facts.device.judged_steps import judged_steps
from perfdoctor.facts.device.round_trips import for_anything_else
from perfdoctor.model.concluded import Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import ConstantCopyLine, Location
from perfdoctor.trace.results import (
    ON_BUS,
    AttentionUse,
    BlockingCalls,
    ClassUse,
    CopySite,
    CopyUse,
    DevicePeak,
    IdleCause,
    KernelClass,
    KernelUse,
    MatrixUse,
    RankTrace,
    RoundTrip,
    Times,
    WorkUse,
)

COPYING = ("aten::to", "aten::_to_copy", "aten::copy_", "aten::cuda")  # operators that copy over it
WITHIN = ("DtoD", "AtoA", "AtoD", "DtoA")  # directions that never leave the device
NOT_COMPUTE = (KernelClass.COMMUNICATION, KernelClass.COPY, KernelClass.MEMSET)
REMOVABLE = 0.95  # no change takes more than this out of a step: a bound on gains, not a forecast


# How many times as long a profiled host takes: 1.0 to 1.42 in measured training steps, by what is recorded.
# Beside an H200 it was 1.3 to 2.2 where launches set the pace, without shapes and stacks.
PROFILED = (2.2, 1.2, 1.0)  # at worst, likely, at best

AHEAD = 10  # queued launches: a host so far ahead launches fast enough, and something else stalls it
US_PER_S = 1e6


@dataclass(frozen=True)
class DeviceFacts:
    """Where the judged time goes. All shares but `comm` exclude each other; with `idle` they add up to 1."""

    name: str | None
    window_s: float  # judged time
    steps: int | None  # judged steps; None where the trace marks none
    compute: float  # kernels that are not communication, copies within the device, memsets
    exposed_comm: float  # communication that no compute hides
    exposed_copy: float  # copies to and from the device that nothing hides: the host, other devices
    idle: Mapping[IdleCause, float]
    comm: float = 0.0  # all communication, hidden or not
    profiled: bool = True  # the judged time is that of a host that a profiler slows
    compilable: float = 1.0  # of the host's time without batches: in the model, forward and backward
    host_floor: float = 0.0  # share of the step that shorter kernels leave; 0 where they set the pace
    away: float = 0.0  # of `idle`: until tensors are back that left for no operator (round-trips)
    copying: float = 0.0  # of `idle`: the host waited until operators had copied to the device

    @property
    def launching(self) -> float:
        """Share in which it idles while the host launches."""
        return self.late + self.idle.get(IdleCause.LAUNCH_GAP, 0.0)

    @property
    def late(self) -> float:
        """Share in which the next launch has not begun, and not because a tensor has to come back first.

        Where that blocks the host, it is idle time of another cause already.
        """
        blocked = self.idle.get(IdleCause.COPY, 0.0) + self.idle.get(IdleCause.SYNC, 0.0)
        return max(0.0, self.idle.get(IdleCause.HOST_LATE, 0.0) - max(0.0, self.away - blocked))

    def per_step_s(self, share: float) -> float | None:
        """Seconds per step that `share` stands for, or None where no step is marked."""
        return share * self.window_s / self.steps if self.steps else None


@dataclass(frozen=True)
class KernelFacts:
    """What the device ran. `scale` turns microseconds of all kernels into shares of the judged time."""

    classes: tuple[ClassUse, ...]
    kernels: tuple[KernelUse, ...]
    scale: float
    work: tuple[WorkUse, ...] = ()  # of the operators whose shapes were recorded
    judged_steps: int | None = None  # which the counts are of
    computing: float = 0.0  # share of the judged time for each microsecond in which anything computes
    devices: int = 1  # of the process, which compute at the same time

    def share(self, *kinds: KernelClass) -> float:
        """Share of the judged time that these classes take."""
        return self.scale * sum(use.us for use in self.classes if use.kind in kinds)

    def alone(self, use: KernelUse) -> float:
        """Share of the judged time in which a kernel computes and nothing else on its device does."""
        return self.computing * (use.us - use.beside_us) / self.devices


@dataclass(frozen=True)
class MatrixFacts:
    """Matrix products by shape, longest first. `scale` as in KernelFacts."""

    matrices: tuple[MatrixUse, ...]
    scale: float
    peak: DevicePeak | None = None


@dataclass(frozen=True)
class RoundTripFacts:
    """Tensors that leave the device and come back, in the window that tells where its time goes.

    `per_us` turns their microseconds into shares of the step: the very ones that are charged to classes.
    """

    trips: tuple[RoundTrip, ...] = ()
    judged_steps: int | None = None  # which the counts are of
    per_us: float = 0.0


@dataclass(frozen=True)
class CopyFacts:
    """Copies between host and device. `scale` turns their microseconds into shares of exposed time."""

    copies: tuple[CopyUse, ...]
    scale: float
    judged_steps: int | None  # which the counts are of
    at: tuple[Location, ...] = ()  # lines whose copies block the host
    sites: tuple[CopySite, ...] = ()  # by place
    round_trips: RoundTripFacts = RoundTripFacts()
    per_us: float = 0.0  # share of the step for each microsecond of sites
    unprofiled: float = 1.0  # of the idle time of sites: what is left of it without a profiler
    timed: float = 0.0  # share of the step in which the host copies to the device, by the timers
    constants: tuple[ConstantCopyLine, ...] = ()  # of the copies

    @property
    def waited_for(self) -> float:
        """The share of the step in which the device waits for copies to it."""
        sites = (site for site in self.sites if site.direction == "HtoD")
        return self.per_us * sum(site.exposed_us + site.idle_us for site in sites)

    def per_step(self, count: float) -> float | None:
        """A count over all judged steps as one per step."""
        return count / self.judged_steps if self.judged_steps else None


@dataclass(frozen=True)
class AttentionFacts:
    """Attention written out. `per_us` turns its microseconds into shares of the step."""

    uses: tuple[AttentionUse, ...]
    per_us: float
    at: tuple[Location, ...] = ()  # where it is computed, costliest first
    unused_weights: bool = False  # nn.MultiheadAttention computes it, for weights that nothing uses


@dataclass(frozen=True)
class WaitFacts:
    """Calls that made the host wait for the device. Shares are of `span_us`, the judged steps or the file."""

    calls: tuple[BlockingCalls, ...]
    span_us: float
    judged_steps: int | None
    idles: float = 1.0  # share of the step that the device idles in all: without a profiler, if that is known
    sampled: Mapping[tuple[str, int], float] = field(default_factory=dict)  # share of the step, of each line
    loader_pins: bool = True  # pinned memory may be a loader's; else the script has pinned it itself

    def behind(self, calls: Sequence[BlockingCalls]) -> tuple[float, float, float]:
        """Shares of the time: waited in these calls, idle behind them, and what goes without them.

        The host is then ahead by as much as it waited, and the device idles no longer than it did. A profiler
        makes the host late and its waits short: where stack samples saw more of their lines, that goes.
        """
        waited = sum(call.us for call in calls) / self.span_us
        idle = min(sum(call.idle_us for call in calls) / self.span_us, self.idles)
        return waited, idle, max(min(waited, idle, 1.0), min(self.in_lines(calls), self.idles))

    def in_lines(self, calls: Sequence[BlockingCalls]) -> float:
        """Share of the step in the lines of these calls, by stack samples; 0 where none were taken."""
        lines = {(call.at.file, call.at.line) for call in calls if call.at is not None and call.at.line}
        return sum(self.sampled.get(line, 0.0) for line in lines)

    def per_step_s(self, us: float) -> float | None:
        """Microseconds over all judged steps as seconds per step."""
        return us / US_PER_S / self.judged_steps if self.judged_steps else None


def places(sites: Iterable[CopySite], most: int) -> list[tuple[str, Location | None, float]]:
    """Operator, line and microseconds that the device waits for the copies of each place, costliest first."""
    cost: dict[tuple[str, Location | None], float] = {}
    for site in sites:
        place = site.op or "a copy", site.at
        cost[place] = cost.get(place, 0.0) + site.exposed_us + site.idle_us
    ranked = sorted(cost.items(), key=lambda entry: -entry[1])
    return [(op, at, us) for (op, at), us in ranked[:most]]


def at_line(at: Location | None) -> str:
    """How a place is named within a sentence: " at line 12", or "" where it is not known."""
    if at is None:
        return ""
    return f" at line {at.line}" + (f" (`{at.text}`)" if at.text else "")


def per_step_ms(us: float, steps: int | None) -> str:
    """A time in words: "3.20 ms a step", or "3.20 ms" in all where no step is marked."""
    return f"{us / 1e3 / steps:.2f} ms a step" if steps else f"{us / 1e3:.2f} ms"


def without(low: float, likely: float, high: float) -> Gain:
    """The speedups if these shares of the time were gone; below 0, added."""
    return Gain(*(1.0 / (1.0 - min(share, REMOVABLE)) for share in (low, likely, high)))


def device_facts(trace: RankTrace) -> DeviceFacts | None:
    """Where the device's time goes, or None in a trace without work of a device."""
    if trace.times is None:
        return None
    steps = judged_steps(trace.steps)
    times = [step.times for step in steps] or [trace.times]
    window_us = sum(time.span_us for time in times)
    if window_us <= 0:
        return None
    idle_us = _idle_us(trace)
    exposed_us = sum(time.exposed_comm_us for time in times)
    copying_us = exposed_copies_us(times)
    over_bus_us = copying_us * over_the_bus(trace)
    compute_us = sum(time.compute_us for time in times)
    return DeviceFacts(
        name=trace.device,
        window_s=window_us / US_PER_S,
        steps=len(steps) or None,
        compute=(compute_us + copying_us - over_bus_us) / window_us,
        exposed_comm=exposed_us / window_us,
        exposed_copy=over_bus_us / window_us,
        idle={cause: us / window_us for cause, us in idle_us.items() if us > 0},
        comm=sum(time.comm_us for time in times) / window_us,
        away=sum(trip.idle_us for trip in for_anything_else(trace.round_trips, len(steps))) / window_us,
        copying=sum(call.idle_us for call in trace.blocking if _copies_in(call)) / window_us,
    )


def _copies_in(call: BlockingCalls) -> bool:
    """Whether it waits in an operator that copies to the device: the timers call that copying, too."""
    return call.direction == "HtoD" and call.op in COPYING


def _idle_us(trace: RankTrace) -> Mapping[IdleCause, float]:
    """Idle time of the judged steps, else of the file."""
    steps = judged_steps(trace.steps)
    return _added([step.idle_us for step in steps]) if steps else trace.idle_us


def _added(parts: Iterable[Mapping[IdleCause, float]]) -> dict[IdleCause, float]:
    total: dict[IdleCause, float] = {}
    for part in parts:
        for cause, us in part.items():
            total[cause] = total.get(cause, 0.0) + us
    return total


def exposed_copies_us(times: Sequence[Times]) -> float:
    """Copies and memsets that nothing hides."""
    others_us = sum(time.compute_us + time.exposed_comm_us for time in times)
    return max(0.0, sum(time.busy_us for time in times) - others_us)


def over_the_bus(trace: RankTrace) -> float:
    """Share of the time of copies and memsets that leaves the device or comes to it."""
    all_us = sum(use.us for use in trace.classes if use.kind in (KernelClass.COPY, KernelClass.MEMSET))
    return min(1.0, _bus_us(trace) / all_us) if all_us > 0 else 1.0


def _bus_us(trace: RankTrace) -> float:
    """Microseconds of the copies that leave the device or come to it, those between devices among them."""
    return sum(copy.us for copy in trace.copies if copy.direction not in WITHIN)


def kernel_facts(trace: RankTrace, device: DeviceFacts) -> KernelFacts:
    """What the device ran."""
    kernels_us = sum(use.us for use in trace.classes if use.kind not in NOT_COMPUTE)
    devices = max(1, len(trace.devices))
    alone_us = sum(use.us - use.beside_us for use in trace.kernels if use.kind not in NOT_COMPUTE) / devices
    times = [step.times for step in judged_steps(trace.steps)] or ([trace.times] if trace.times else [])
    computing_us = max(sum(time.compute_us for time in times), alone_us)
    return KernelFacts(
        classes=trace.classes,
        kernels=trace.kernels,
        scale=_compute_scale(trace, device),
        work=trace.work,
        judged_steps=len(judged_steps(trace.steps)) or None,
        devices=devices,
        computing=_compute_scale(trace, device) * kernels_us / computing_us if computing_us > 0 else 0.0,
    )


def matrix_facts(trace: RankTrace, device: DeviceFacts) -> MatrixFacts | None:
    """Matrix products, or None without shapes."""
    if not trace.matrices:
        return None
    return MatrixFacts(trace.matrices, _compute_scale(trace, device), trace.peak)


def copy_facts(trace: RankTrace, device: DeviceFacts) -> CopyFacts | None:
    """Copies over the bus, or None where there are none."""
    copies = tuple(copy for copy in trace.copies if copy.direction in ON_BUS)
    if sum(copy.us for copy in copies) <= 0:
        return None
    idle = share_per_us(device) * sum(_idle_us(trace).values())
    return CopyFacts(
        copies=copies,
        scale=device.exposed_copy / _bus_us(trace),
        judged_steps=len(judged_steps(trace.steps)) or None,
        at=blocked_at(trace),
        sites=trace.sites,
        round_trips=round_trip_facts(trace, device),
        per_us=share_per_us(device),
        unprofiled=min(1.0, sum(device.idle.values()) / idle) if idle > 0 else 1.0,
    )


def round_trip_facts(trace: RankTrace, device: DeviceFacts) -> RoundTripFacts:
    """Round trips of every kind."""
    steps = len(judged_steps(trace.steps)) or None
    return RoundTripFacts(trace.round_trips, steps, share_per_us(device))


def blocked_at(trace: RankTrace) -> tuple[Location, ...]:
    """Lines whose copies block the host."""
    lines = [call.at for call in trace.blocking if call.at is not None and call.op in COPYING]
    return tuple(dict.fromkeys(lines))


def share_per_us(device: DeviceFacts) -> float:
    """Share of the step for each microsecond that was counted in the judged steps, else in the file."""
    return 1 / (device.window_s * US_PER_S) if device.window_s > 0 else 0.0


def attention_facts(trace: RankTrace, device: DeviceFacts | None) -> AttentionFacts | None:
    """Attention written out, or None where there is none; without a device, of the judged steps' time."""
    span_us = (
        sum(step.times.span_us for step in judged_steps(trace.steps)) or (trace.end_ns - trace.begin_ns) / 1e3
    )
    if not trace.attention or span_us <= 0:
        return None
    per_us = share_per_us(device) if device is not None else 1 / span_us
    places = dict.fromkeys(use.at for use in trace.attention if use.at is not None)
    return AttentionFacts(trace.attention, per_us, tuple(places))


def wait_facts(trace: RankTrace) -> WaitFacts | None:
    """Calls that wait for the device, or None where there are none."""
    if trace.times is None or not trace.blocking:
        return None
    span_us = sum(step.times.span_us for step in judged_steps(trace.steps)) or trace.times.span_us
    calls = tuple(call for call in trace.blocking if not _returns(call, trace.round_trips))
    return WaitFacts(calls, span_us, len(judged_steps(trace.steps)) or None)


def _returns(call: BlockingCalls, round_trips: Sequence[RoundTrip]) -> bool:
    """Whether most of what a blocking call copies to the host comes back: that is told elsewhere."""
    alike = (way.count for way in round_trips if (way.out, way.out_at) == (call.op, call.at))
    return call.direction == "DtoH" and 2 * sum(alike) > call.count


def _compute_scale(trace: RankTrace, device: DeviceFacts) -> float:
    """Judged share per microsecond of the device's own work: kernels, and copies and memsets within it.

    Streams overlap.
    """
    kernels_us = sum(use.us for use in trace.classes if use.kind not in NOT_COMPUTE)
    moved_us = sum(use.us for use in trace.classes if use.kind in (KernelClass.COPY, KernelClass.MEMSET))
    total_us = kernels_us + moved_us * (1.0 - over_the_bus(trace))
    return device.compute / total_us if total_us > 0 else 0.0
