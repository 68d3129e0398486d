"""Adds what windows of torch.profiler tell to a run's facts: they explain, the timers decide.

A window slows the host, not the device. So the device's time is taken from the window, the length of the
step from the timers, and what the device idles is what is left of that step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from perfdoctor.facts.device import device, exact_lines
from perfdoctor.facts.device.attention import written_out
from perfdoctor.facts.device.constant_copies import CopiedConstants, of_window
from perfdoctor.facts.device.device import (
    US_PER_S,
    AttentionFacts,
    CopyFacts,
    DeviceFacts,
    KernelFacts,
    MatrixFacts,
    WaitFacts,
)
from perfdoctor.facts.device.exact_lines import LineFinder
from perfdoctor.facts.device.fusable_attention import FusableAttention
from perfdoctor.facts.device.judged_steps import judged_steps
from perfdoctor.facts.device.weighted_attention import WeightedAttention
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import (
    LoaderFacts,
    OperatorCost,
    Phase,
    RunFacts,
    StackFacts,
    StepFacts,
    WindowFacts,
)
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RunRecords
from perfdoctor.trace.lost import INVALID
from perfdoctor.trace.results import (
    BlockingCalls,
    CopySite,
    DevicePeak,
    IdleCause,
    Launches,
    RankTrace,
)
from perfdoctor.wire.events.training import WindowEvent

MeasuredWindows = Mapping[str, RankTrace]  # by kind: "plain", "shapes", "stacks"

NO_WINDOW = Missing("no torch.profiler window was recorded")
NO_WORK = Missing("the torch.profiler window holds no work of the device")
NOT_RECORDED = Missing(
    "the profiler was refused the device: kernels were launched and none recorded (another tool may hold it,"
    " or the container lacks the permission)"
)
NO_WORK_IN_WSL = Missing(
    "the torch.profiler window holds no work of the device, as is usual under WSL; "
    "operators are timed on the CPU"
)
WSL = "microsoft"  # in the name of its kernel, in any version
NO_SHAPES = Missing("no torch.profiler window with shapes was recorded")
OF_HOST = (IdleCause.DATA_WAIT, IdleCause.COPY, IdleCause.SYNC, IdleCause.HOST_LATE)
FEW_WAITS = 0.02  # of the window, in waits for batches: fewer are those of batches that were there
LATE = 0.1  # of the step: where the device idles less for its host, both may set the pace
FULL = 1000  # launches that a device queues; the next one waits, which no call that waits tells
SEEN = 5  # samples of a line: fewer may be chance
PLAINEST = ("plain", "shapes", "stacks")  # the window that disturbs least comes first
DETAILED = ("shapes", "plain", "stacks")  # shapes cost the host time, not the device


@dataclass(frozen=True)
class DeviceWindows:
    """The windows of a run that trained on a device, and where the device's time goes by two of them."""

    windows: MeasuredWindows
    plain: RankTrace
    detailed: RankTrace
    device: DeviceFacts  # by the plain one
    seen: DeviceFacts  # by the detailed one

    @property
    def stacks(self) -> RankTrace | None:
        """The window that tells lines."""
        return self.windows.get("stacks")


@fact
def device_windows(
    windows: MeasuredWindows, run: RunFacts, step: StepFacts, records: RunRecords
) -> DeviceWindows | Missing | None:
    """The windows, or None where no device trained."""
    if not run.on_device:
        return None
    plain, detailed = plainest(windows), _first(windows, DETAILED)
    if plain is None or detailed is None:
        return NO_WINDOW
    by_plain, by_detailed = unprofiled(plain, step), unprofiled(detailed, step)
    if by_plain is None or by_detailed is None:
        return _no_work(records, refused=INVALID in (*plain.notes, *detailed.notes))
    return DeviceWindows(windows, plain, detailed, by_plain, by_detailed)


def plainest(windows: MeasuredWindows) -> RankTrace | None:
    """The window that disturbs least."""
    return _first(windows, PLAINEST)


def _no_work(records: RunRecords, refused: bool) -> Missing:
    """Why windows of a run on a device hold the CPU alone, as far as anybody told."""
    recorded = (event for rank in records.ranks.values() for event in rank.of(WindowEvent))
    left_out = next((event.because for event in recorded if event.outcome == "ok" and event.because), None)
    if left_out is not None:
        return Missing(f"torch.profiler recorded the CPU alone: {left_out}")
    host = records.run.get("host")
    if isinstance(host, dict) and WSL in str(host.get("platform")).lower():
        return NO_WORK_IN_WSL
    return NOT_RECORDED if refused else NO_WORK


def _first(windows: MeasuredWindows, kinds: Sequence[str]) -> RankTrace | None:
    return next((windows[kind] for kind in kinds if kind in windows), None)


@fact
def device_facts(windows: DeviceWindows) -> DeviceFacts:
    """Where the device's time goes."""
    return windows.device


@fact
def kernel_facts(windows: DeviceWindows, lines: LineFinder) -> KernelFacts:
    """Kernels of the window that tells their work, with the lines of the one that tells those."""
    kernels, stacks = device.kernel_facts(windows.detailed, windows.seen), windows.stacks
    at = {use.name: use.at for use in stacks.kernels} if stacks else {}
    uses = tuple(replace(use, at=use.at or at.get(use.name)) for use in kernels.kernels)
    return exact_lines.of_kernels(replace(kernels, kernels=uses), lines)


@fact
def matrix_facts(windows: DeviceWindows) -> MatrixFacts | Missing | None:
    """Matrix products by shape."""
    if "shapes" not in windows.windows:
        return NO_SHAPES
    return device.matrix_facts(windows.detailed, windows.seen)


@fact
def attention_facts(
    windows: MeasuredWindows,
    device_windows: DeviceWindows | Missing | None,
    lines: LineFinder,
    stacks: StackFacts | Missing,
    step: StepFacts,
    sources: Sources,
    fusable: FusableAttention | Missing | None,
    calls: WeightedAttention | Missing | None,
) -> AttentionFacts | Missing | None:
    """Attention written out: on a device or a CPU, as a window saw it; without one, as stack samples did.

    What no fused kernel can take over is left out, where that is known.
    """
    detailed = _first(windows, DETAILED)
    found = written_out(stacks, step, sources) if isinstance(stacks, StackFacts) else NO_WINDOW
    if detailed is not None:
        own, found = found, _attention(detailed, windows, device_windows, lines)
        if isinstance(calls, WeightedAttention) and isinstance(found, AttentionFacts):
            found = found if isinstance(own, AttentionFacts) else calls.of(found)
    elif isinstance(calls, WeightedAttention) and (torchs := calls.alone(step)) is not None:
        found = found if isinstance(found, AttentionFacts) and _share(found) > _share(torchs) else torchs
    if isinstance(found, AttentionFacts) and isinstance(fusable, FusableAttention):
        return replace(found, per_us=found.per_us * fusable.share) if fusable.share else None
    return found


def _share(attention: AttentionFacts) -> float:
    return attention.per_us * sum(use.between_us + use.products_us for use in attention.uses)


def _attention(
    detailed: RankTrace,
    windows: MeasuredWindows,
    device_windows: DeviceWindows | Missing | None,
    lines: LineFinder,
) -> AttentionFacts | Missing | None:
    if isinstance(device_windows, Missing):
        return device_windows
    attention = device.attention_facts(detailed, device_windows.seen if device_windows else None)
    with_lines = device.attention_facts(windows["stacks"], None) if "stacks" in windows else None
    if attention is None:
        return None
    if with_lines and not attention.at:
        attention = replace(attention, at=with_lines.at)
    return exact_lines.of_attention(attention, lines)


@fact
def copy_facts(
    windows: DeviceWindows, lines: LineFinder, step: StepFacts, constants: CopiedConstants | Missing | None
) -> CopyFacts | None:
    """Copies in the window that tells most of them, with the lines of the one that tells those."""
    copies, stacks = device.copy_facts(windows.detailed, windows.seen), windows.stacks
    if copies is None:
        return None
    trips = device.round_trip_facts(windows.plain, windows.device)
    copies = replace(copies, timed=step.share(Phase.HOST_TO_DEVICE), round_trips=trips)
    if isinstance(constants, CopiedConstants):
        copies = replace(copies, constants=of_window(copies, constants))
    if stacks is None:
        return exact_lines.of_copies(copies, lines)
    places = {_kind(site): site.at for site in reversed(stacks.sites)}
    sites = [replace(site, at=site.at or places.get(_kind(site))) for site in copies.sites]
    way = {(trip.out, trip.back, trip.same): trip for trip in reversed(stacks.round_trips)}
    round_trips = [
        replace(trip, out_at=seen.out_at, back_at=seen.back_at)
        if (seen := way.get((trip.out, trip.back, trip.same)))
        else trip
        for trip in trips.trips
    ]
    trips = replace(trips, trips=tuple(round_trips))
    copies = replace(copies, at=device.blocked_at(stacks), sites=tuple(sites), round_trips=trips)
    return exact_lines.of_copies(copies, lines)


@fact
def wait_facts(
    windows: DeviceWindows,
    lines: LineFinder,
    stacks: StackFacts | Missing,
    loader: LoaderFacts | Missing | None,
) -> WaitFacts | None:
    """Calls that made the host wait for the device, by the lines of the script where those are known.

    How long is told by the window that disturbs least: one with stacks makes the host so late that it hardly
    waits.
    """
    waits = device.wait_facts(windows.plain) or device.wait_facts(windows.stacks or windows.plain)
    if waits is None:
        return None
    if windows.stacks is not None:
        waits = replace(waits, calls=_with_lines(waits.calls, windows.stacks.blocking))
    # not inside of phases: a line that waits may call the model as well
    between = stacks.phases.get(Phase.OTHER, ()) if isinstance(stacks, StackFacts) else ()
    sampled = {(cost.at.file, cost.at.line): cost.share for cost in between if cost.samples >= SEEN}
    idles = max(0.0, sum(windows.device.idle.values()))
    pins = isinstance(loader, Missing) or (loader is not None and loader.pin_memory)
    return exact_lines.of_waits(replace(waits, idles=idles, sampled=sampled, loader_pins=pins), lines)


def _with_lines(calls: Sequence[BlockingCalls], seen: Sequence[BlockingCalls]) -> tuple[BlockingCalls, ...]:
    """The calls at the places where a window with stacks saw such, shared as often as it saw them there."""
    parts: list[BlockingCalls] = []
    for call in calls:
        alike = [each for each in seen if _way(each) == _way(call)]
        total = sum(each.count for each in alike)
        parts += [exact_lines.part_of(call, each.at, each.count / total) for each in alike] or [call]
    return tuple(parts)


def _way(call: BlockingCalls) -> tuple[object, ...]:
    return call.call, call.op, call.direction


@fact
def launches(windows: DeviceWindows) -> Launches | None:
    """How the host launched kernels."""
    return windows.plain.launches


@fact
def device_peak(windows: DeviceWindows) -> DevicePeak | Missing:
    """What the device can do at most."""
    name = windows.plain.device or "the device"
    return windows.plain.peak or Missing(f"the peak rates of {name} are not known")


def _kind(site: CopySite) -> tuple[object, ...]:
    """What copies of one place have in common in every window: the bytes of each, not the shapes."""
    return site.direction, site.host_memory, site.op, (site.bytes or 0) // site.count


@fact
def window_facts(windows: MeasuredWindows) -> WindowFacts | None:
    """The operators of the steps in the window that disturbs least, or None where it holds none."""
    trace = _first(windows, PLAINEST)
    if trace is None:
        return None
    on_device = trace.times is not None
    costs_us = {op.name: op.device_us if on_device else op.host_us for op in trace.ops}
    total_us = sum(costs_us.values())
    steps = len(judged_steps(trace.steps))
    if total_us <= 0 or not steps:
        return None
    operators = [
        OperatorCost(op.name, costs_us[op.name] / total_us, op.count / steps)
        for op in sorted(trace.ops, key=lambda op: -costs_us[op.name])
        if costs_us[op.name] > 0
    ]
    return WindowFacts(trace.file, steps, on_device, tuple(operators))


def unprofiled(trace: RankTrace, step: StepFacts) -> DeviceFacts | None:
    """The device's shares of a usual step as the timers saw it; None in a window without work of a device.

    What only the first step takes (compiling, warm-up) is over: more steps make it no longer.
    """
    shares = device.device_facts(trace)
    if shares is None or not shares.steps or step.usual_s <= 0:
        return shares
    stretch = shares.window_s / shares.steps / step.usual_s
    busy = shares.compute + shares.exposed_comm + shares.exposed_copy
    stretch = min(stretch, 1 / busy) if busy > 0 else 1.0
    idle = 1 - busy * stretch if sum(shares.idle.values()) > 0 else 0.0
    return replace(
        shares,
        window_s=step.usual_s * shares.steps,
        compute=shares.compute * stretch,
        exposed_comm=shares.exposed_comm * stretch,
        exposed_copy=shares.exposed_copy * stretch,
        comm=shares.comm * stretch,
        profiled=False,
        compilable=_compilable(step),
        host_floor=_host_floor(trace, shares, busy * stretch, step.usual_s),
        idle=_idle(shares.idle, idle, _bare_wait(trace, shares, step)),
        away=min(shares.away * stretch, idle),  # what the host works on there launches nothing
        copying=min(shares.copying * stretch, idle),
    )


def _idle(seen: Mapping[IdleCause, float], total: float, waiting: float) -> Mapping[IdleCause, float]:
    """What the device idles in all, by cause as the window saw it; for batches at least `waiting`."""
    all_seen = sum(seen.values())
    if total <= 0 or all_seen <= 0:
        return {}
    data = max(seen.get(IdleCause.DATA_WAIT, 0.0) / all_seen * total, min(waiting, total))
    others = all_seen - seen.get(IdleCause.DATA_WAIT, 0.0)
    left = (total - data) / others if others > 0 else 0.0
    by_cause = {cause: share * left for cause, share in seen.items()}
    return {**by_cause, IdleCause.DATA_WAIT: data if others > 0 else total} if data > 0 else by_cause


def _bare_wait(trace: RankTrace, seen: DeviceFacts, step: StepFacts) -> float:
    """The share of a usual step in which, by the timers, the device waits for a batch.

    Batches come when they like, and few steps may have had to wait for none: then nobody knows better than
    the timers. Where they waited, the window tells how much of that the device still had work for.
    """
    waited_us = sum(each.dataloader_us for each in judged_steps(trace.steps))
    idled_us = seen.idle.get(IdleCause.DATA_WAIT, 0.0) * seen.window_s * US_PER_S
    few = waited_us < FEW_WAITS * seen.window_s * US_PER_S
    bare = 1.0 if few else min(1.0, idled_us / waited_us)
    return bare * step.seconds.get(Phase.DATA_WAIT, 0.0) / step.usual_s


def _host_floor(trace: RankTrace, profiled: DeviceFacts, busy: float, usual_s: float) -> float:
    """The share of a usual step that the host takes by itself, where it is the host that sets the pace.

    A host that the device waits for is late by as much with shorter kernels: what they can save is the time
    that it waits for them, in calls that wait. A profiler makes it slower, and such waits shorter. One that
    launches quickly, and then works on something else until the queue is empty, is late as well.
    `busy`: share of the usual step in which the device works.
    """
    late = sum(profiled.idle.get(cause, 0.0) for cause in OF_HOST)
    stopped = trace.launches is None or trace.launches.queue_max >= FULL
    if stopped or late < LATE or busy > 1 - LATE or not profiled.steps:
        return 0.0
    waited_s = sum(call.us for call in trace.blocking) / US_PER_S / profiled.steps
    own_s = profiled.window_s / profiled.steps - waited_s
    return max(0.0, 1 - max(waited_s, usual_s - own_s) / usual_s)


def _compilable(step: StepFacts) -> float:
    """The share of the host's time without batches that the model takes, forward and backward."""
    first_s = step.mean_s - step.usual_s  # of the first step: libraries are loaded, kernels are chosen
    host_s = step.usual_s - step.seconds.get(Phase.DATA_WAIT, 0.0)
    model_s = step.seconds.get(Phase.FORWARD, 0.0) + step.seconds.get(Phase.BACKWARD, 0.0) - first_s
    return min(1.0, max(0.0, model_s) / host_s) if host_s > 0 else 1.0
