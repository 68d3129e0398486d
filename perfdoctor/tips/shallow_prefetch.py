"""Batches of uneven cost drain a short prefetch queue, although the workers are fast enough on average.

## What it sees
The step waits for batches whose cost varies a lot, although on average the workers prepare them faster than
the step uses them; a simulation of the queue with the measured costs waits less with a deeper queue.

## By hand
    DataLoader(dataset, ..., num_workers=2, prefetch_factor=8)

## When not
Each prefetched batch takes memory, in shared memory too. Where the expensive items can be made cheap, or
spread evenly over the batches, no deeper queue is needed.
"""

from __future__ import annotations

from perfdoctor.facts.predict.batch_queue import EVEN
from perfdoctor.facts.predict.step_model import StepModel
from perfdoctor.model.batch import waits_beside
from perfdoctor.model.change import Change, Effort
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, Phase, StepFacts
from perfdoctor.model.units import size
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of step time; a shorter wait drowns in step-to-step noise
ENOUGH = 1.03  # a likely gain below it is not worth a change
DEPTHS = (4, 8, 16, 32)  # prefetched batches per worker
KNEE = 0.02  # a deeper queue that brings less than this is not worth its memory


@tip(title="Prefetch more batches", bottleneck=Bottleneck.DATA, effort=Effort.FLAG, checked=Checked.SCRIPTS)
def shallow_prefetch(step: StepFacts, loader: LoaderFacts, model: StepModel) -> Advice | None:
    """Advises a deeper queue where batches of uneven cost drain the short one."""
    left_out_s = {"the starts of epochs": loader.epoch_wait_s, "other loaders": loader.others_wait_s}
    waited_s = step.seconds.get(Phase.DATA_WAIT, 0.0) - sum(left_out_s.values())
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
    ready_bytes = (loader.batch_bytes or 0) * depth * loader.num_workers
    memory = f"; {depth} per worker would take {size(ready_bytes)} in all" if ready_bytes else ""
    return Advice(
        because=(
            waits_beside(step, left_out_s),
            f"a batch costs {p50_ms:.1f} ms at the median and {p95_ms:.1f} ms at the 95th percentile",
            f"each of {loader.num_workers} workers prefetches {model.prefetch} batches{memory}",
        ),
        change=Change(prefetch=depth),
        at=(loader.at,) if loader.at else (),
        tweak=f"--prefetch {depth}",
        code=f"DataLoader(..., num_workers={loader.num_workers}, prefetch_factor={depth})",
        arguments=f"dataloader_num_workers={loader.num_workers}, dataloader_prefetch_factor={depth}",
    )
