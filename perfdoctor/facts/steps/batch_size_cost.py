"""Tells what a step costs whatever its batch size, and what each sample adds: BatchSizeFacts.

On a device, its kernels tell (BatchFill). On a CPU there are three kinds of evidence, best first: steps of
different sizes in one run (the last batch of an epoch is often smaller); what the samples of a step need by
the shapes of its operators, at the rate that the fastest of its own matrix products reaches; and the number
of its operators, each of which takes some microseconds however small its tensors are. Where other programs
hold the cores, waiting for one would look like fixed cost, and the fastest product is one that had no wait:
there the number of operators alone tells.
"""

from __future__ import annotations

import numpy as np

from perfdoctor.facts.device.batch_fill import BatchFill
from perfdoctor.facts.device.profiler_windows import MeasuredWindows
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.boundaries import Floats, Steps
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import CpuFacts, Marker, Phase, RunFacts, WindowFacts
from perfdoctor.model.missing import Missing
from perfdoctor.model.units import operations
from perfdoctor.trace.results import HostWork, RankTrace

SMALLER = 0.6  # of the usual batch: sizes nearer to it do not tell the two parts of the cost apart
FEW = 3  # steps of such a size
SHAPES = "shapes"  # the window that tells them
WITH_THE_BATCH = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
# What one operator takes however little it computes. A profiler counts the views and the parts of others as
# well, more than half of all: a view takes 0.2 to 0.5 us, one that launches a loop 1 to 4.
OPERATOR_S = (0.4e-6, 0.8e-6, 1.5e-6)
OWN = ("aten::", "autograd::")  # how operators are named
HELD = 0.25  # seconds that threads have no core, per second: a step then takes more than its work
# The most that a call costs beyond its work, under a profiler: dispatch, and of a product also packing and
# sharing out to threads. What takes longer is counted as work, known or not.
CALL_US, PRODUCT_CALL_US = 5.0, 20.0


@dataclass(frozen=True)
class BatchSizeFacts:
    """Shares of the step that would stay if its batch were empty."""

    samples: float  # in a usual step
    fixed: tuple[float, float, float]  # low, likely, high
    because: str
    small_for_device: bool | None = None  # whether it leaves much of a device unused; None on a CPU
    launching: float = 0.0  # of what is fixed: a device idles while the host launches


@fact
def batch_size_facts(
    steps: Steps,
    window: WindowFacts | None,
    windows: MeasuredWindows,
    run: RunFacts,
    cpu: CpuFacts | Missing | None,
    fill: BatchFill | Missing | None,
) -> BatchSizeFacts | Missing | None:
    """The fixed part of a step, or None where nothing tells it."""
    if steps.marker is not Marker.UPDATE or (run.on_device and fill is None):
        return None
    if isinstance(fill, Missing):
        return fill
    trained_on = _trained_on(steps)
    single = (steps.weight == 1) & ~steps.disturbed & (trained_on > 0)
    single[: len(single) // 10] = False  # warm-up
    if not np.any(single):
        return None
    samples = trained_on[single]
    seconds = sum(steps.phases[phase] for phase in WITH_THE_BATCH)[single]  # type: ignore[index]
    whole_s = steps.seconds[single]
    usual = float(np.median(samples))
    if fill is not None:
        return BatchSizeFacts(usual, fill.fixed, fill.because, fill.is_small, fill.launching)
    small = samples <= SMALLER * usual
    compute_s = float(np.median(seconds[samples == usual])) if np.any(samples == usual) else 0.0
    if compute_s <= 0 or whole_s.sum() <= 0:
        return None
    part = min(1.0, float(seconds.sum() / whole_s.sum()))
    if small.sum() >= FEW:
        size, small_s = float(np.median(samples[small])), float(np.median(seconds[small]))
        each_s = (compute_s - small_s) / (usual - size)
        likely = min(1.0, max(0.0, 1 - each_s * usual / compute_s)) * part
        why = (
            f"{usual:.0f} samples take {compute_s * 1e3:.2f} ms to compute and to learn from, "
            f"{size:.0f} still take {small_s * 1e3:.2f} ms"
        )
        return BatchSizeFacts(usual, (0.7 * likely, likely, min(part, 1.2 * likely)), why)
    if window is None or window.on_device:
        return None
    calls = sum(op.calls_per_step for op in window.operators if op.name.startswith(OWN))
    low, likely, high = (part * min(1.0, calls * each_s / compute_s) for each_s in OPERATOR_S)
    mean_us = compute_s / calls * 1e6 if calls else 0.0
    why = f"{calls:,.0f} operators per step take {mean_us:.1f} µs each, little more than their call overhead"
    needed = None if _held(cpu) else _needed(windows.get(SHAPES))
    if needed is None:
        return BatchSizeFacts(usual, (low, likely, high), why)
    shown = (
        f"its samples need {needed.seconds * 1e3:.2f} of {compute_s * 1e3:.2f} ms: "
        f"{operations(needed.flops)} at {operations(needed.flops_per_s)}/s, as the fastest of its products, "
        f"and the rest of its operators' work"
    )
    by_shapes = part * max(0.0, 1.0 - needed.seconds / compute_s)
    # operators that cost their calls are fixed for certain; what else no sample needs may be Python for each
    return BatchSizeFacts(usual, (min(likely, by_shapes), by_shapes, max(by_shapes, part)), shown)


def _held(cpu: CpuFacts | Missing | None) -> bool:
    """Whether other programs hold cores that training's threads wait for."""
    return isinstance(cpu, CpuFacts) and cpu.crowded and (cpu.main_delay or 0.0) >= HELD


def _trained_on(steps: Steps) -> Floats:
    """The samples that each step trains on, which a loader that runs ahead has delivered some batches before.

    Such a loader (accelerate takes the next batch before it hands one out, to know which is the last; others
    copy the next one to a device meanwhile) gives the last steps of an epoch fewer batches than they use, and
    the first step of the next one as many more. Without this a smaller last batch is taken for the step
    before its own, and a step that accumulates gradients for a smaller one.
    """
    delivered, batches = steps.counts["samples"], steps.counts["batches"]
    used = _batches_used(steps)
    lacks = np.concatenate([[False], batches < used, [False]])
    borders = np.flatnonzero(lacks[1:] != lacks[:-1])
    begin, end = borders[::2], borders[1::2]  # of stretches of steps that got fewer than they use
    between = (begin > 0) & (end < len(delivered))
    begin, end = begin[between], end[between]
    if not len(begin):
        return delivered
    late = np.concatenate([[0.0], np.cumsum(used - batches)])
    ahead = late[end] - late[begin]
    if np.any(ahead != ahead[0]) or np.any(batches[end] - used[end] < ahead):
        return delivered  # several steps train on one batch, or no such loader delivers them
    given = np.minimum(batches, used)  # more is validation's, but for what is taken ahead
    given[[0, *end]] += ahead[0]
    come, gone = np.cumsum(given), np.cumsum(used)
    gone += come[end[0] - 1] - gone[end[0] - 1]  # at the end of an epoch, no batch is left
    taken = np.interp([gone[0] - used[0], *gone], [0.0, *come], [0.0, *np.cumsum(delivered)])
    return np.asarray(np.diff(taken))


def _batches_used(steps: Steps) -> Floats:
    """How many batches each step trains on, by its backward passes: as many as a batch usually has."""
    batches, backwards = steps.counts["batches"], steps.counts["backwards"]
    both = (batches > 0) & (backwards > 0)
    if not np.any(both):
        return batches
    return np.asarray(np.rint(backwards * float(np.median(batches[both] / backwards[both]))))


@dataclass(frozen=True)
class _Needed:
    """What the samples of one step need by the shapes of its operators."""

    seconds: float
    flops: float
    flops_per_s: float  # reached by the fastest matrix product or convolution of the same window


def _needed(trace: RankTrace | None) -> _Needed | None:
    """What the forward and backward passes of a step compute, at the rates that its operators reach.

    None without a window with shapes, or where no operator of known work tells a rate. What an optimizer
    does is left out: it is the same for any batch.
    """
    if trace is None or not trace.steps:
        return None
    rates = [use.flops * use.count / use.us for use in trace.host_work if use.flops and use.us > 0]
    if not rates:
        return None
    per_us = max(rates)
    us = sum(_needed_us(use, per_us) for use in trace.host_work)
    flops = sum((use.flops or 0.0) * use.count for use in trace.host_work)
    return _Needed(us / len(trace.steps) / 1e6, flops / len(trace.steps), per_us * 1e6)


def _needed_us(use: HostWork, flops_per_us: float) -> float:
    """What calls take for their work: all of their time but what a call costs, at most."""
    each_us = use.us / use.count
    if not use.flops:
        return use.count * max(0.0, each_us - CALL_US)
    return use.count * min(each_us, max(use.flops / flops_per_us, each_us - PRODUCT_CALL_US))
