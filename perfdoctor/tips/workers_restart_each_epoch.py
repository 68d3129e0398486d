"""Every epoch begins with a stall because its worker processes are started anew.

## What it sees
Several epochs, each beginning with a wait that is far longer than preparing one batch.

## By hand
    DataLoader(dataset, ..., num_workers=4, persistent_workers=True)

## When not
Workers that live on keep their copy of the dataset: a dataset that the script changes between epochs is not
seen by them. A dataset that opens files and never closes them keeps them open.
"""

from __future__ import annotations

from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Change, Effort, Estimate
from perfdoctor.model import Advice, Bottleneck, LoaderFacts, StepFacts

NOTICEABLE = 0.02  # share of wall time: the smallest gain that is reported
SURE = 0.6  # of the stall certainly goes: forking or spawning; the rest is the first batch, partly


@tip(
    title="Keep the worker processes alive between epochs",
    bottleneck=Bottleneck.DATA,
    effort=Effort.FLAG,
    checked=Checked.SCRIPTS,
)
def workers_restart_each_epoch(step: StepFacts, loader: LoaderFacts) -> Advice | None:
    """Persistent workers, where their start-up is a visible share of the run."""
    if not loader.num_workers or loader.persistent_workers or loader.epochs < 2 or not loader.epoch_start_s:
        return None
    stall_s = loader.epoch_start_s - (loader.steady_wait_s or 0.0)
    removed_s = stall_s - loader.batch_s  # the first batch still has to be prepared
    restarts = loader.epochs - 1
    share = min(1.0, removed_s * restarts / step.wall_s) if step.wall_s > 0 else 0.0
    if share < NOTICEABLE:
        return None
    most = min(1.0, stall_s * restarts / step.wall_s)
    return Advice(
        because=(
            f"each of {loader.epochs} epochs begins with a wait of {loader.epoch_start_s:.2f} s",
            f"a batch costs {loader.batch_s * 1e3:.1f} ms: the rest starts {loader.num_workers} workers anew",
            f"that is {share:.0%} of the training time",
        ),
        change=Change(starts=Estimate(SURE * share, share, most)),
        at=(loader.at,) if loader.at else (),
        tweak="--persistent-workers",
        code=f"DataLoader(..., num_workers={loader.num_workers}, persistent_workers=True)",
    )
