"""The training process prepares its batches itself, in the training loop.

## What it sees
A noticeable share of the step is spent on lines of the training loop that compute the model's inputs, in the
training process and outside the workers of a DataLoader.

## By hand
    class Batches(torch.utils.data.Dataset):
        def __getitem__(self, index): ...        # what the loop does for one batch

    for x, y in DataLoader(Batches(...), batch_size=None, num_workers=1):

Where the cores are busy with training, work on whole arrays at once comes first:

    x = data[rows]                               # not row by row

Where those lines wait for storage or a network, fetch what a batch needs at once:

    with ThreadPoolExecutor(16) as pool:         # once, before the loop
        items = list(pool.map(fetch, keys))

## When not
Where the algorithm generates its data from the model during training (reinforcement learning, self-play),
batches cannot be prepared ahead. Where a DataLoader without workers delivers the batches, give it some first:
`too-few-workers` says what that brings.
"""

from __future__ import annotations

from dataclasses import replace

from perfdoctor.facts.device.created_tensors import CreatedTensors
from perfdoctor.facts.predict.step_model import StepModel
from perfdoctor.model.change import Change, Effort, Estimate, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import CpuFacts, Phase, StackFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.08  # share of step time
SEEN = 5  # samples in those lines: fewer may be chance
# Share of the cost that vectorising its Python saves, without any worker: advised where it saves more.
VECTORISED = 0.7
WHOLE = "x = data[rows]  # index whole arrays or tensors at once, instead of row by row"
COMPUTING = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
WAITS = 0.5  # of the lines' time, without CPU time: fetched at once, as good as all of it overlaps
SHORT = 0.1  # of computing: where so much of it had no CPU time, it waits as well, and nothing is told
OVERLAPPED = (0.5, 0.9)  # of that waiting: at worst, likely
FASTER = 1.02
KNEE = 0.05  # a worker more that brings less than this is not worth its memory


@tip(
    title="Prepare batches ahead of time, in worker processes",
    bottleneck=Bottleneck.DATA,
    effort=Effort.REWRITE,
    checked=Checked.SCRIPTS,
)
def batches_built_in_the_loop(
    step: StepFacts, stacks: StackFacts, cpu: CpuFacts, model: StepModel, created: CreatedTensors
) -> Advice | None:
    """Advises a DataLoader with workers where the training loop spends much time on preparing batches.

    What a loader's own batches cost is the affair of other tips: beside one, this moves to its workers what
    the loop does, and credits no more of them. So are tensors that the device could create itself.
    """
    if model.batches and not model.workers:
        return None
    between = stacks.phases.get(Phase.OTHER, ())
    lines = [line for line in between if line.kind == "data" and not created.at(line)]
    share = min(1.0, sum(line.share for line in lines))
    if share < NOTICEABLE or sum(line.samples for line in lines) < SEEN:
        return None
    moved = Change(moved=Estimate(share, share, share))
    workers = model.workers or model.after([moved]).knee(max(1, int(cpu.usable_cores)), KNEE)
    top = lines[0]
    text = f": `{top.at.text}`" if top.at.text else ""
    by_workers = replace(moved, workers=workers)
    vectorised = removes(0.0, VECTORISED * share, share)
    ms = share * step.mean_s * 1e3
    because = (
        f"{share:.0%} of each step ({ms:.1f} ms) is spent preparing the next batch in the training loop",
        f"line {top.at.line} takes the most, {top.share:.0%} of the step{text}",
    )
    at = tuple(line.at for line in lines[:3])
    waits = _waits(step, cpu, share)
    if waits >= WAITS:
        low, likely = (waits * share * overlapped for overlapped in OVERLAPPED)
        said = f"for {waits:.0%} of that time no core works: it waits for storage, a network or a timer"
        code = "items = list(pool.map(fetch, keys))  # pool = ThreadPoolExecutor(16), once, before the loop"
        return Advice((*because, said), removes(low, likely, share), at, code=code)
    of_workers = model.gain(by_workers).likely
    if of_workers < FASTER:  # handing a small batch over costs more than preparing it
        return None
    if model.gain(vectorised).likely > of_workers:
        said = (
            f"workers would share the cores with training and hand every batch over ({of_workers:.2f}x): "
            "where rows are prepared one by one, whole arrays at once save more"
        )
        return Advice((*because, said), vectorised, at, code=WHOLE)
    code = f"for batch in DataLoader(batches, batch_size=None, num_workers={workers}):  # a batch an item"
    return Advice(because, by_workers, at, code=code)


def _waits(step: StepFacts, cpu: CpuFacts, share: float) -> float:
    """How much of that share of the step passes without CPU time; computing keeps one core busy at least.

    A thread that is ready and has no core waits for none of these: on a crowded machine its delay counts as
    work, and where that was not measured nothing is told.
    """
    building_s = share * step.mean_s
    untold = cpu.crowded and cpu.main_delay is None
    if step.process_cpu_s is None or untold or building_s <= 0:
        return 0.0
    worked_s = step.process_cpu_s + (cpu.main_delay or 0.0) * step.mean_s
    computing_s = sum(step.seconds.get(phase, 0.0) for phase in COMPUTING)
    if worked_s < (1.0 - SHORT) * computing_s:
        return 0.0
    return min(1.0, max(0.0, 1.0 - max(0.0, worked_s - computing_s) / building_s))
