"""Tells what a step costs whatever its batch size, and what each sample adds: BatchSizeFacts.

Two kinds of evidence: steps of different sizes in one run (the last batch of an epoch is often smaller), and
the number of operators in a step, each of which takes some microseconds however small its tensors are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.boundaries import Steps
from perfdoctor.model.measured import Marker, Phase, WindowFacts

SMALLER = 0.6  # of the usual batch: sizes nearer to it do not tell the two parts of the cost apart
FEW = 3  # steps of such a size
WITH_THE_BATCH = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
# What one operator takes however little it computes. A profiler counts the views and the parts of others as
# well, more than half of all: a view takes 0.2 to 0.5 us, one that launches a loop 1 to 4.
OPERATOR_S = (0.4e-6, 0.8e-6, 1.5e-6)
OWN = ("aten::", "autograd::")  # how operators are named


@dataclass(frozen=True)
class BatchSizeFacts:
    """Shares of the step that would stay if its batch were empty."""

    samples: float  # in a usual step
    fixed: tuple[float, float, float]  # low, likely, high
    because: str


@fact
def batch_size_facts(steps: Steps, window: WindowFacts | None) -> BatchSizeFacts | None:
    """The fixed part of a step, or None where nothing tells it."""
    if steps.marker is not Marker.UPDATE:
        return None
    single = (steps.weight == 1) & ~steps.disturbed & (steps.counts["samples"] > 0)
    single[: len(single) // 10] = False  # warm-up
    if not np.any(single):
        return None
    samples = steps.counts["samples"][single]
    seconds = sum(steps.phases[phase] for phase in WITH_THE_BATCH)[single]  # type: ignore[index]
    whole_s = steps.seconds[single]
    usual = float(np.median(samples))
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
    return BatchSizeFacts(usual, (low, likely, high), why)
