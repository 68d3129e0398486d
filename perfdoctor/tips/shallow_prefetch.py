"""Batches of uneven cost run a short queue empty, although the workers are fast enough in the mean.

## What it sees
The step waits for batches whose cost varies a lot, although in the mean the workers prepare them faster than
the step uses them; a simulation of the queue with the measured costs waits less with more batches kept ready.

## By hand
    DataLoader(dataset, ..., num_workers=2, prefetch_factor=8)

## When not
Each batch that is kept ready takes memory, in shared memory too. Where the dear items can be made cheap, or
spread evenly over the batches, no queue is needed.
"""

from __future__ import annotations

from perfdoctor.analysis.stepmodel import EVEN, StepModel
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Change, Effort
from perfdoctor.model import Advice, Bottleneck, LoaderFacts, Phase, StepFacts

NOTICEABLE = 0.05  # share of step time; a shorter wait drowns in step-to-step noise
ENOUGH = 1.03  # a likely gain below it is not worth a change
DEPTHS = (4, 8, 16, 32)  # batches kept ready per worker
KNEE = 0.02  # a deeper queue that brings less than this is not worth its memory


@tip(title="Keep more batches ready", bottleneck=Bottleneck.DATA, effort=Effort.FLAG, checked=Checked.SCRIPTS)
def shallow_prefetch(step: StepFacts, loader: LoaderFacts, model: StepModel) -> Advice | None:
    """A deeper queue, where uneven batches run the short one empty."""
    waited_s = step.seconds.get(Phase.DATA_WAIT, 0.0) - loader.other_wait_s - loader.epoch_wait_s
    fast_enough = loader.num_workers and model.data_s / loader.num_workers < model.compute_s
    if waited_s < NOTICEABLE * step.mean_s or model.spread == EVEN or not fast_enough:
        return None
    deeper = [depth for depth in DEPTHS if depth > model.prefetch]
    times = {depth: model.step_after([Change(prefetch=depth)]) for depth in deeper}
    best_s = min(times.values(), default=0.0)
    depth = next((depth for depth in deeper if times[depth] <= best_s * (1 + KNEE)), None)
    if depth is None or model.gain(Change(prefetch=depth)).likely < ENOUGH:
        return None
    p50_ms, p95_ms = loader.batch_p50_s * 1e3, loader.batch_p95_s * 1e3
    size = (loader.batch_bytes or 0) * depth * loader.num_workers
    memory = f"; {depth} for each of {loader.num_workers} workers take {size / 1e6:,.0f} MB" if size else ""
    return Advice(
        because=(
            f"{waited_s / step.mean_s:.0%} of each step waits for the next batch",
            f"a batch costs {p50_ms:.1f} ms in the median and {p95_ms:.1f} ms at the 95th percentile",
            f"{model.prefetch} batches a worker are kept ready{memory}",
        ),
        change=Change(prefetch=depth),
        at=(loader.at,) if loader.at else (),
        tweak=f"--prefetch {depth}",
        code=f"DataLoader(..., num_workers={loader.num_workers}, prefetch_factor={depth})",
    )
