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

from perfdoctor.analysis.predicted import restarts
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Change, Effort
from perfdoctor.model import Advice, Bottleneck, LoaderFacts, StepFacts

NOTICEABLE = 0.02  # share of wall time: the smallest gain that is reported


@tip(
    title="Keep the worker processes alive between epochs",
    bottleneck=Bottleneck.DATA,
    effort=Effort.FLAG,
    checked=Checked.SCRIPTS,
)
def workers_restart_each_epoch(step: StepFacts, loader: LoaderFacts) -> Advice | None:
    """Persistent workers, where their start-up is a visible share of the run."""
    starts = restarts(step, loader)
    if starts.likely < NOTICEABLE:
        return None
    return Advice(
        because=(
            f"each of {loader.epochs} epochs begins with a wait of {loader.epoch_start_s or 0.0:.2f} s",
            f"a batch costs {loader.batch_s * 1e3:.1f} ms: the rest starts {loader.num_workers} workers anew",
            f"that is {starts.likely:.0%} of the training time",
        ),
        change=Change(starts=starts),
        at=(loader.at,) if loader.at else (),
        tweak="--persistent-workers",
        code=f"DataLoader(..., num_workers={loader.num_workers}, persistent_workers=True)",
    )
