"""Every epoch begins with a stall because its worker processes are started again.

## What it sees
Several epochs, each beginning with a wait that is far longer than preparing one batch. Starting processes
also slows training down: how much longer these steps train than others is measured, too.

## By hand
    DataLoader(dataset, ..., num_workers=4, persistent_workers=True)

Where the line makes a loader anew for each epoch, make it once, before the loop: its workers end with it. A
dataset that is another one in each epoch can have a method that says which (`dataset.set_epoch(epoch)`).

## When not
Persistent workers keep their copy of the dataset: they do not see changes that the script makes to it between
epochs. A dataset that opens files and never closes them keeps them open.
"""

from __future__ import annotations

from perfdoctor.facts.predict.worker_count import restarts, slowed
from perfdoctor.model.change import Change, Effort
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip
from perfdoctor.tips.too_few_workers import MADE_ONCE

NOTICEABLE = 0.02  # share of wall time: the smallest gain that is reported


@tip(
    title="Keep the worker processes alive between epochs",
    bottleneck=Bottleneck.DATA,
    effort=Effort.FLAG,
    checked=Checked.SCRIPTS,
)
def workers_restart_each_epoch(step: StepFacts, loader: LoaderFacts) -> Advice | None:
    """Advises persistent workers where their start-up takes a noticeable share of the run."""
    starts, slower = restarts(step, loader), slowed(step, loader)
    if starts.likely < NOTICEABLE:
        return None
    return Advice(
        because=(
            f"each of {loader.epochs} epochs begins with a wait of {loader.epoch_start_s or 0.0:.2f} s",
            f"a batch costs {loader.batch_s * 1e3:.1f} ms: the rest restarts {loader.num_workers} workers",
            *_others(step, loader),
            *_made_again(loader),
            f"that is {starts.likely:.0%} of the training time",
            *_slower(slower.likely),
        ),
        change=Change(step=slower, starts=starts),
        at=(loader.at,) if loader.at else (),
        tweak="--persistent-workers" if loader.built == 1 else None,
        code=f"DataLoader(..., num_workers={loader.num_workers}, persistent_workers=True)"
        + ("" if loader.built == 1 else MADE_ONCE),
        arguments=f"dataloader_num_workers={loader.num_workers}, dataloader_persistent_workers=True",
    )


def _made_again(loader: LoaderFacts) -> tuple[str, ...]:
    """That workers end with their loader, where the line makes another one."""
    if loader.built == 1:
        return ()
    return (f"the line made {loader.built} loaders, and the workers of each end with it",)


def _slower(share: float) -> tuple[str, ...]:
    """How much longer the first steps of epochs train, where that is noticeable."""
    if share < NOTICEABLE:
        return ()
    return (f"while workers start, a step trains longer than others do: {share:.0%} of the training time",)


def _others(step: StepFacts, loader: LoaderFacts) -> tuple[str, ...]:
    """What validation's workers add, where that is noticeable."""
    share = loader.others_restart_s / step.mean_s
    if share < NOTICEABLE:
        return ()
    return (f"workers of other loaders start and stop as well: {share:.0%} of the training time",)
