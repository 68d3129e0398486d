"""Batches come from the loader's workers as very many tensors.

## What it sees
The loader has workers, a batch holds many tensors (as where `collate_fn` returns the list of its samples:
graphs, point sets, targets of a detector), and the step waits noticeably for batches on their way. Each
tensor crosses in shared memory of its own, which the worker makes, the training process opens and maps, and
both give back: that costs about as much for a few numbers as for thousands. The tensors of a loader's first
batches are counted; stack samples tell the time.

## By hand
Merge the samples in `collate_fn`, in the worker, into as many tensors as one sample has:

    def merged(samples):
        sizes = torch.tensor([len(sample.x) for sample in samples])
        return torch.cat([sample.x for sample in samples]), sizes   # x.split(sizes.tolist()) takes them apart

Indices into samples, as the edges of graphs, are shifted by where each sample begins
(`sizes.cumsum(0) - sizes`); sequences of about the same length may be padded instead
(`torch.nn.utils.rnn.pad_sequence`). What few numbers belong to a sample can stay Python numbers or NumPy
arrays, which travel in the batch's one message.

## When not
Where samples are large and of different sizes, as images that are not cropped: merging them copies them once
more, and saves little.
"""

from __future__ import annotations

from math import ceil

from perfdoctor.facts.data.batch_tensors import BatchTensorFacts
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

MANY = 64  # tensors of a batch: fewer take a few milliseconds
NOTICEABLE = 0.08  # share of the step that likely goes; less drowns in step-to-step noise
SEEN = 5  # samples: fewer may be chance
# bench/tensor_transfer.py, on a busy machine: taking a tensor out of the queue takes 45 to 400 us, a batch of
# one small tensor some eight times as long. Of batches of 64 to 550 tensors that become 1 to 9, up to 1 MB,
# 79 to 99 % of the time goes; of 8 MB, which take a while to map and to copy as well, 55 to 97 %.
FIXED = 8  # tensors that take as long as what a batch costs on its way however few it holds
LEAST = 0.65  # of what likely goes
CODE = """\
def merged(samples):  # in the module: collate_fn=merged
    sizes = torch.tensor([len(sample.x) for sample in samples])
    return torch.cat([sample.x for sample in samples]), sizes  # one tensor a field, not one a sample"""


@tip(
    title="Merge each batch into few tensors, in the workers",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
    rivals=("too-many-workers",),  # without workers there is no such way
)
def many_tensors_per_batch(step: StepFacts, loader: LoaderFacts, batch: BatchTensorFacts) -> Advice | None:
    """Advises to merge samples in workers, where the way of many tensors is waited for."""
    if not loader.num_workers or batch.tensors < MANY or batch.samples < SEEN:
        return None
    merged = ceil(batch.tensors / max(1.0, batch.longest))
    goes = 1.0 - (merged + FIXED) / (batch.tensors + FIXED)
    if goes * (batch.handed + batch.freed) < NOTICEABLE:
        return None
    handed_ms, freed_ms = (share * step.mean_s * 1e3 for share in (batch.handed, batch.freed))
    most = 1.0 - merged / batch.tensors
    handed = f"{batch.handed:.0%} of each step ({handed_ms:.1f} ms)"
    few = f"{merged} tensor{'s' if merged > 1 else ''}"
    return Advice(
        because=(
            f"{handed} waits for batches on their way from the workers",
            f"a batch comes as {batch.tensors:,.0f} tensors, each in memory of its own; merged, as {few}",
            *([f"giving their memory back takes another {freed_ms:.1f} ms"] if batch.freed else []),
        ),
        change=Change(
            handed=Estimate(LEAST * goes, goes, most),
            step=Estimate(0.0, goes * batch.freed, most * batch.freed),
        ),
        at=batch.at,
        code=CODE,
    )
