"""Batches arrive late because too few worker processes prepare them.

## What it sees
The training process waits for its next batch, a batch costs a worker more time than the step can hide, and
cores are free (or, where batches wait for a disk or a network, more of them could wait in parallel). A wait
for a thread that takes the batches from the loader and hands them on counts as well: a `DataLoader` of your
own may give a `BackgroundGenerator` in its `__iter__`.

## By hand
    DataLoader(dataset, ..., num_workers=4, persistent_workers=True)

## When not
With all cores busy, more workers only take them from the training step. Each worker holds its own copy of the
dataset object: watch host memory. An IterableDataset that does not shard itself yields its samples once per
worker. Where processes are not forked (macOS, Windows, Linux from Python 3.14 on), a worker takes seconds to
start and imports the script, whose training has to be below `if __name__ == "__main__":`.
"""

from __future__ import annotations

from perfdoctor.facts.data.handed_on import HandedOnFacts
from perfdoctor.facts.predict.step_model import FORK, StepModel
from perfdoctor.facts.predict.worker_count import good_workers, restarts, start_again
from perfdoctor.model.batch import waits_beside
from perfdoctor.model.change import NOTHING, Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import CpuFacts, LoaderFacts, Phase, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.08  # share of step time; a shorter wait drowns in step-to-step noise
ENOUGH = 1.03  # a likely gain below it is not worth a change
QUEUE_GONE = 0.5  # at least, of the waits that go if workers do not hinder each other and the thread
MADE_ONCE = "  # made once, before the loop over epochs"
GUARD = '\nif __name__ == "__main__":  # around all that trains: each worker imports the script\n    main()'


@tip(
    title="Prepare batches in more worker processes",
    bottleneck=Bottleneck.DATA,
    effort=Effort.FLAG,
    checked=Checked.SCRIPTS,
)
def too_few_workers(
    step: StepFacts, loader: LoaderFacts, cpu: CpuFacts, model: StepModel, handed_on: HandedOnFacts
) -> Advice | None:
    """Advises more workers where batches arrive late and the step model predicts a gain."""
    left_out_s = {
        "the starts of epochs": loader.epoch_wait_s * bool(loader.num_workers),
        "other loaders": loader.other_wait_s,
    }
    waited_s = step.seconds.get(Phase.DATA_WAIT, 0.0) - sum(left_out_s.values())
    if waited_s < (NOTICEABLE - handed_on.share) * step.mean_s:
        return None
    queued = Change(step=Estimate(handed_on.share, handed_on.share, handed_on.share))  # at the very best
    # as is advised beside their number
    living_on = restarts(step, loader) if start_again(loader) else NOTHING
    workers = good_workers(model.after((queued, Change(starts=living_on))), cpu)
    # Loaders that feed the same steps get as many, which hides their cheaper batches, too, if cores are left.
    beside = min(1.0, loader.beside_wait_s / step.mean_s)
    # A thread hands on no more batches than workers make: twice as many of them halve its queue's waits.
    most = handed_on.share * max(0.0, 1.0 - loader.num_workers / workers)
    fewer = Estimate(QUEUE_GONE * most, most, most)
    change = Change(workers=workers, step=fewer, starts=living_on, others=Estimate(0.0, beside, beside))
    if workers <= loader.num_workers or model.gain(change).likely < ENOUGH:
        return None
    again = not loader.persistent_workers and loader.epochs > 1
    live_on = " --persistent-workers" if again and not loader.anew else ""
    late = (
        "their batches arrive late"
        if loader.num_workers
        else "the training process prepares every batch itself"
    )
    through = f"{handed_on.share:.0%} of each step waits for a thread that hands its batches on"
    batch_ms, cpu_ms = loader.batch_s * 1e3, loader.batch_cpu_s * 1e3
    busy = f", of which this run keeps {cpu.busy_cores:.1f} busy" if cpu.busy_cores is not None else ""
    return Advice(
        because=(
            through if handed_on.share else waits_beside(step, left_out_s),
            f"num_workers is {loader.num_workers}: {late}",
            f"a batch costs {batch_ms:.1f} ms, {cpu_ms:.1f} ms of it CPU time",
            f"{cpu.usable_cores:g} cores are usable{busy}",
        ),
        change=change,
        at=tuple(at for at in (loader.at, handed_on.at) if at is not None),
        tweak=None if loader.iterable else f"--workers {workers}{live_on}",
        same_result=not loader.iterable,
        code=f"DataLoader(..., num_workers={workers}, persistent_workers=True)"
        + (MADE_ONCE if loader.anew else "")
        + ("" if loader.start_method in (None, FORK) else GUARD),
        arguments=f"dataloader_num_workers={workers}, dataloader_persistent_workers=True",
    )
