"""A frozen model computes the same features again in every epoch, although they never change.

## What it sees
In sampled steps, calls of a module that compute nothing trained: without gradients, or with no parameter and
no input that requires them. Its parameters and buffers stayed as they were, it draws no random numbers, and
rows of its inputs came again in later steps, told by some elements of each. Where such rows were compared, it
returned the same for them. How often rows come again tells how many different ones there are, and so what is
left of its time once each was computed. Augmented inputs are others each time, and are not counted.

Typical cases: a text or image encoder below a trained head, a frozen backbone, a VAE whose latents a
diffusion model trains on, the teacher of a distillation.

## By hand
    encoder.eval()
    with torch.no_grad():                                    # once, before training, in the dataset's order
        features = torch.cat([encoder(x) for x, _ in DataLoader(dataset, batch_size=64)])
    dataset = TensorDataset(features, labels)                # or: have the dataset return features[index]

Or fill them in as training goes, where each epoch passes every item:

    if epoch == 0:
        with torch.no_grad():
            kept[index] = encoder(x)                         # the dataset returns the item's index as well
    features = kept[index]

Where they do not fit into memory, keep them in half precision, or in a file: `numpy.memmap`. What the file
takes to read is reckoned in. What a frozen module returns in between is kept the same way: train the part
behind it on that.

## When not
Where the inputs are to be augmented before the encoder, where it is to be fine-tuned later, or for a single
epoch, in which each is computed once anyway.

Inputs are compared where training runs on the CPU. Rows that come in the same order in each epoch are found
where the module is called by itself, or is given what the model around it is given; if that makes other
tensors of it first, only if sampled steps happen to meet the same rows again.
"""

from __future__ import annotations

from perfdoctor.facts.script.frozen_features import FrozenFeatureFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import RunFacts, StepFacts
from perfdoctor.model.units import size
from perfdoctor.tips._cached import fits
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step
# Of its time at least so much goes: the rest looks the features up, which passes over them once in memory.
GONE_LEAST = 0.9
# What does not fit into memory is read from a file: from a disk that turns, by SATA, or by NVMe.
FILE_BYTES_PER_S = (0.1e9, 0.5e9, 2e9)
SHOWN = 3  # lines named
IN_MEMORY = (
    "with torch.no_grad():  # once, before training\n"
    "    features = torch.cat([encoder(x) for x, _ in DataLoader(dataset, batch_size=64)])"
)
IN_FILE = (
    "kept = numpy.lib.format.open_memmap('features.npy', 'w+', numpy.float16, (len(dataset), width))\n"
    "with torch.no_grad():  # once, before training\n"
    "    for at, (x, _) in enumerate(DataLoader(dataset, batch_size=64)):\n"
    "        kept[64 * at : 64 * at + len(x)] = encoder(x).numpy()"
)


@tip(
    title="Compute what a frozen model returns once, and keep it",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    applies=("cpu",),
    checked=Checked.SCRIPTS,
    rivals=("repeated-forward", "recomputed-constants", "discarded-gradients"),
)
def frozen_features(run: RunFacts, step: StepFacts, frozen: FrozenFeatureFacts) -> Advice | None:
    """Advises keeping the features where computing them again takes a noticeable share of the step."""
    kept_bytes, free_bytes = frozen.different * frozen.row_bytes, frozen.free_bytes
    in_file = free_bytes is not None and not fits(run, kept_bytes, free_bytes)
    reads = frozen.step_rows * frozen.row_bytes / step.mean_s if in_file and step.mean_s else 0.0  # bytes/s
    low, likely, high = (
        max(0.0, frozen.share * frozen.again.at(case) - reads / pace)
        for case, pace in zip((2, 1, 0), FILE_BYTES_PER_S, strict=True)
    )
    if likely < NOTICEABLE:
        return None
    name = frozen.module
    takes = f"and {frozen.modules - 1} more frozen modules take" if frozen.modules > 1 else "takes"
    ms = frozen.share * step.mean_s * 1e3
    seen = (
        "of its inputs" if frozen.whole else "of its inputs, by those that came again in the steps looked at,"
    )
    passes = (
        f"{frozen.passes:.1f} passes over {frozen.different:,.0f} different ones; longer training gains more"
    )
    because = [
        f"{name} {takes} {frozen.share:.0%} of each step ({ms:.1f} ms) and nothing in it is trained",
        f"about {frozen.again.likely:.0%} {seen} had been computed before: {passes}",
    ]
    if frozen.row_bytes > 0:
        each = f" in each of {run.ranks} ranks" if run.ranks > 1 else ""
        left = f"; {size(free_bytes)} were free" if free_bytes is not None else ""
        kept = f"what it returns for {frozen.different:,.0f} takes {size(kept_bytes)}{each}"
        because.append(f"{kept}{left}" + (", too little to keep it other than in a file" if in_file else ""))
    return Advice(
        because=tuple(because),
        change=removes(GONE_LEAST * low, likely, high),
        at=frozen.at[:SHOWN],
        code=IN_FILE if in_file else IN_MEMORY,
    )
