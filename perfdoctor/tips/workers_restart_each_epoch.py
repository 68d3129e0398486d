"""Every epoch begins with a stall because its worker processes are started again.

## What it sees
Several epochs, each beginning with a wait that is far longer than preparing one batch; or a loader of
validation whose workers start and stop for each pass over it, whether training's live on or not. Starting
processes also slows training down: how much longer these steps train than others is measured, too.

## By hand
    DataLoader(dataset, ..., num_workers=4, persistent_workers=True)

Where the line makes a loader anew for each epoch, make it once, before the loop: its workers end with it. A
dataset that is another one in each epoch can have a method that says which (`dataset.set_epoch(epoch)`).

## When not
Persistent workers keep their copy of the dataset: they do not see changes that the script makes to it between
epochs. A dataset that opens files and never closes them keeps them open.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfdoctor.facts.predict.worker_count import kept_alive, restarts, start_again
from perfdoctor.model.change import Effort
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, RestartingLoader, StepFacts
from perfdoctor.model.units import count
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
    starts, change, again = restarts(step, loader), kept_alive(step, loader), start_again(loader)
    named = [each for each in loader.restarting if each.per_step_s >= NOTICEABLE * step.mean_s]
    if not again and not named:
        named = list(loader.restarting[:1])
    restarting: list[LoaderFacts | RestartingLoader] = [loader] if again else []
    restarting += named
    if starts.likely < NOTICEABLE or not restarting:
        return None
    workers, anew = restarting[0].num_workers, any(each.anew for each in restarting)
    return Advice(
        because=(
            *(_training(loader) if again else ()),
            *(words for each in named for words in _other(each)),
            f"that is {starts.likely:.0%} of the training time",
            *_slower(change.step.likely),
        ),
        change=change,
        at=tuple(each.at for each in restarting if each.at),
        tweak=None if anew else "--persistent-workers",
        code=f"DataLoader(..., num_workers={workers}, persistent_workers=True)" + (MADE_ONCE if anew else ""),
        arguments=f"dataloader_num_workers={workers}, dataloader_persistent_workers=True",
    )


def _training(loader: LoaderFacts) -> Iterator[str]:
    """What the training loader's epochs begin with."""
    yield f"each of {loader.epochs} epochs begins with a wait of {loader.epoch_start_s or 0.0:.2f} s"
    yield f"a batch costs {loader.batch_s * 1e3:.1f} ms: the rest restarts {loader.num_workers} workers"
    if loader.anew:
        yield f"the line made {loader.built} loaders, and the workers of each end with it"


def _other(loader: RestartingLoader) -> Iterator[str]:
    """What a pass over another loader costs."""
    line = f" in line {loader.at.line}" if loader.at else ""
    workers = count(loader.num_workers, "worker")
    yield f"each of {loader.passes} passes over the loader{line} restarts {workers}: {loader.each_s:.2f} s"
    if loader.anew:
        yield f"that line made {loader.built} loaders, and the workers of each end with it"


def _slower(share: float) -> tuple[str, ...]:
    """How much longer the first steps of epochs train, where that is noticeable."""
    if share < NOTICEABLE:
        return ()
    return (f"steps are slower while workers start: {share:.0%} of the training time",)
