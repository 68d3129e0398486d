"""Sequences are padded far beyond their ends, and the model computes on the padding.

## What it sees
A few of the training loader's batches, before they are copied to a device, or what the model is called with
where no loader delivers tensors: rows of integers, most of which end (or begin) with one value that hardly
occurs elsewhere, or that a mask beside them marks. A large part of all positions is such padding, and forward
and backward are a real share of the step. Features and sound in batches are not looked at.

## By hand
Pad each batch to its own longest sequence, where it is put together, not all data to one length:

    def collate(texts):
        return torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=PAD)

    tokenizer(text, truncation=True)                                 # without padding="max_length", then
    DataLoader(..., collate_fn=DataCollatorWithPadding(tokenizer))   # transformers

Put sequences of about the same length into one batch:

    alike = (lengths * torch.empty(len(lengths)).uniform_(0.9, 1.1)).argsort().split(batch_size)
    DataLoader(..., batch_sampler=[alike[i].tolist() for i in torch.randperm(len(alike))])

    TrainingArguments(train_sampling_strategy="group_by_length")     # transformers 5
    TrainingArguments(group_by_length=True)                          # before

Texts for a language model are better packed: joined, with a mark between them, and cut into even rows.

## When not
`torch.compile` and CUDA graphs want few different shapes: pad to the next of a few lengths, or compile with
`dynamic=True`. With lengths alike, batches differ more from each other: shuffle them, and compare accuracy. A
loss or a norm that takes padding into account changes with its amount.
"""

from __future__ import annotations

from perfdoctor.analysis.padding import PaddingFacts
from perfdoctor.analysis.predicted import LARGE_S
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck, Phase, RunFacts, StepFacts, ThreadFacts

NOTICEABLE = 0.20  # share of the step that computes on sequences
LARGE = 0.25  # share of positions that is padding: less is usual, and its cure leaves a part of it
PART = 0.10  # of positions: a way of padding that less goes by is not worth its lines
# Of padding that lies within the longest sequence of its batch: what goes where lengths in a batch are alike.
# Counted on invented lengths (log-normal, normal, uniform) in batches of 8 to 128, sorted in groups of 50
# batches, or all together with a tenth of noise.
GROUPED = (0.7, 0.93, 0.98)
# Of the computing on positions that go: at worst, likely, at best. Measured on one core, half or three
# quarters of them gone: transformers 1.0 to 1.35, LSTM and GRU 0.93 to 0.98, convolutions 0.9. What calling
# operations takes stays: transformers of 7 ms 0.8 to 0.9, of 1 ms 0.15. A device that waits for its
# host gains nothing.
GONE, GONE_SMALL, GONE_ON_DEVICE = (0.85, 1.0, 1.0), (0.1, 0.7, 1.0), (0.0, 0.9, 1.0)
# Attention computes on pairs of positions: of all computing, none (recurrent), some, or most of it. At 256
# positions 0.1 to 0.4 were measured, 0.6 and more where scores are kept in memory.
PAIRS = (0.0, 0.2, 0.7)
SHOWN = 2  # lines that pad

OWN = "pad_sequence(texts, batch_first=True)  # in collate_fn, to the longest of the batch"
ALIKE = "batches = torch.tensor(lengths).argsort().split(batch_size)  # for batch_sampler, in random order"


@tip(
    title="Pad less: to a batch's own longest, and alike lengths together",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
)
def padded_batches(
    run: RunFacts, step: StepFacts, threads: ThreadFacts, padding: PaddingFacts
) -> Advice | None:
    """Shorter rows, where much of what is computed on is padding."""
    compute = step.share(Phase.FORWARD) + step.share(Phase.BACKWARD)
    if compute < NOTICEABLE or padding.share < LARGE:
        return None
    own = padding.beyond if padding.beyond >= PART else 0.0
    alike = padding.within if padding.within >= PART else 0.0
    width, longest = padding.width, padding.longest
    because = [
        f"{padding.share:.0%} of positions are padding, in {padding.batches} batches that were looked at",
        f"of {width:.0f}, a sequence fills {padding.mean:.0f}, a batch's longest {longest:.0f}",
        f"forward and backward compute on all of them, and are {compute:.0%} of the step",
    ]
    if own and alike:
        because.append(f"{own:.0%} go by padding to the longest of each batch, {alike:.0%} lie within it")
    at = (padding.at,) if padding.at else ()
    pads = padding.lines[:SHOWN]
    low, likely, high = (
        compute * part * _of_pairs(own + alike * grouped, pairs)
        for part, grouped, pairs in zip(_gone(run, threads), GROUPED, PAIRS, strict=True)
    )
    return Advice(
        because=tuple(because),
        change=removes(low, likely, high),
        at=(*pads, *at) if own else (*at, *pads),
        same_result=not alike,
        code="\n".join(code for share, code in ((own, OWN), (alike, ALIKE)) if share),
    )


def _gone(run: RunFacts, threads: ThreadFacts) -> tuple[float, float, float]:
    """Of the computing on positions that go, what goes with them: at worst, likely and at best."""
    if run.device != "cpu":
        return GONE_ON_DEVICE
    small = threads.per_module_s is not None and threads.per_module_s < LARGE_S
    return GONE_SMALL if small else GONE


def _of_pairs(share: float, pairs: float) -> float:
    """The share of the computing, `pairs` of it on pairs of positions, if a share of the positions goes."""
    return (1.0 - pairs) * share + pairs * (1.0 - (1.0 - share) ** 2)
