"""Sequences are padded far beyond their ends, and the model computes on the padding.

## What it sees
A few batches of the training loader, before they are copied to a device (or the model's inputs, where no
loader delivers tensors), hold rows of integers most of which end or begin with one value that hardly occurs
elsewhere, or that a mask marks; or frames of features, `[batch, time, features]` or `[batch, features,
time]`, of which a mask or a tensor of lengths in the batch says where they end. A large part of all positions
is such padding, and forward and backward take a large share of the step. Sound as samples is not checked.

Batches that are padded to their own longest sequence are no fault where less than 40 % is padding, as random
batches have: that similar lengths could be grouped is then told as a matter of choice.

## By hand
Pad each batch to its own longest sequence, in the collate function, instead of all data to one length:

    def collate(sequences):
        return torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=PAD)

    tokenizer(text, truncation=True)                                 # without padding="max_length", then
    DataLoader(..., collate_fn=DataCollatorWithPadding(tokenizer))   # transformers

That collator pads what the tokenizer makes, and no labels. The one that pads labels, too:

    DataCollatorForTokenClassification(tokenizer)                    # a label for each token
    DataCollatorForSeq2Seq(tokenizer)                                # labels that are texts themselves
    DataCollatorForLanguageModeling(tokenizer, mlm=False)            # makes them of rows without labels

On a device, round that length up to a multiple of 8, as 16-bit products and attention want it; for rows of
more than 128 positions 64 is usual, with which few different lengths occur. Where rows are [batch, length]:

    rows = torch.nn.functional.pad(rows, (0, -rows.shape[1] % 64), value=PAD)
    DataCollatorWithPadding(tokenizer, pad_to_multiple_of=64)        # the others likewise

Then put sequences of similar length into one batch, which alone gains nothing where all rows are equally
long:

    alike = (lengths * torch.empty(len(lengths)).uniform_(0.9, 1.1)).argsort().split(batch_size)
    order = [alike[i].tolist() for i in torch.randperm(len(alike))]  # anew for each epoch
    DataLoader(..., batch_sampler=order)       # of several ranks, each takes order[rank::world]

    Trainer(..., data_collator=DataCollatorWithPadding(tokenizer))   # or another; rows are left unpadded
    TrainingArguments(train_sampling_strategy="group_by_length")     # transformers 5
    TrainingArguments(group_by_length=True)                          # before

For a language model, packing is better: join the texts, with a separator between them, and cut the result
into rows of equal length.

## When not
`torch.compile` and CUDA graphs want few different shapes: pad to the next of a few lengths, or compile with
`dynamic=True`. So does a device in 16 bits: on an H200, a transformer took 4.6 times as long for batches of
any length up to 127 as for batches of 512. Grouped by length, batches differ more from each other: shuffle
them, and compare accuracy. A loss or a normalisation that includes the padding changes with its amount.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfdoctor.facts.data.collators import OF_LANGUAGE, OF_TEXTS, OF_TOKENS
from perfdoctor.facts.data.padding import PaddingFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Location, Phase, RunFacts, StepFacts, ThreadFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.20  # share of the step that computes on sequences
LARGE = 0.25  # share of positions that is padding: less is usual, and the fix leaves a part of it
# Where each batch is padded to its own longest sequence, most scripts live with this much: of 16 random ones,
# 35 % where lengths are normal (50 +- 15), 39 % where they are uniform (10 to 64).
LARGE_WITHIN = 0.40
PART = 0.10  # of positions: a way of padding that less goes by is not worth its lines
# Of padding that lies within the longest sequence of its batch: what goes where lengths in a batch are alike.
# Counted on invented lengths (log-normal, normal, uniform) in batches of 8 to 128, sorted in groups of 50
# batches, or all together with a tenth of noise.
GROUPED = (0.7, 0.93, 0.98)
# Of the computing on positions that go: at worst, likely, at best. Measured on one core, half or three
# quarters of them gone: transformers 1.0 to 1.35, LSTM and GRU 0.93 to 0.98, convolutions 0.9. What calling
# operations takes stays, however few they compute on: transformers of 7 ms 0.8 to 0.9, of 1 ms 0.15. A device
# that waits for its host gains nothing.
GONE, GONE_OF_SMALLEST, GONE_ON_DEVICE = (0.85, 1.0, 1.0), (0.1, 0.15, 1.0), (0.0, 0.9, 1.0)
CALLS_S = (0.2e-3, 0.1e-3, 0.0)  # of a module: some operations, forward and backward
# Attention computes on pairs of positions: of all computing, none (recurrent), some, or most of it, and in
# proportion to the positions. At 256 of them 0.1 to 0.4 were measured, 0.6 and more where scores are kept.
PAIRS, PAIRS_AT = (0.0, 0.2, 0.7), 256
SHOWN = 2  # lines that pad

OWN = "pad_sequence(sequences, batch_first=True)  # in collate_fn: pads to the longest of the batch"
TOKENIZED = "tokenizer(texts, truncation=True)  # without padding: {collator} pads each batch"
# Odd lengths keep 16-bit products and attention off the fast path, and each new one may have kernels chosen.
# Positions: what lengths are rounded up to, in rows up to SHORT and in longer.
FINE, COARSE, SHORT = 8, 64, 128
ROUNDED = """\
# rows are [batch, length]; 16 bits want multiples of 8
rows = torch.nn.functional.pad(rows, (0, -rows.shape[1] % {multiple}), value=PAD)"""
COLLATED = "{collator}(tokenizer{more})"
WHY_ROUNDED = "  # 16 bits want multiples of 8"
ROUNDED_FOR_NOTHING = "# lengths are rounded up to multiples of {multiple} now: a CPU gains nothing by that\n"
LABELS = {
    OF_TOKENS: "  # pads labels, too",
    OF_TEXTS: "  # pads labels, too",
    OF_LANGUAGE: "  # makes the labels itself: rows without them",
}
UNPADDED = "# where rows are padded now: leave them as long as their sequences\n"
ALIKE = """\
batches = torch.tensor(lengths).argsort().split(batch_size)
order = [batches[i].tolist() for i in torch.randperm(len(batches))]
# order is a list: make it and the loader anew each epoch; of several ranks each takes order[rank::world]
DataLoader(..., batch_sampler=order)  # without batch_size, shuffle, sampler and drop_last"""

GROUPED_BY_TRAINER = 'train_sampling_strategy="group_by_length"'  # transformers 5
GROUPED_BY_TRAINER_SECOND = (
    f"TrainingArguments(..., {GROUPED_BY_TRAINER})  # then: it reads the rows' lengths"
)
COLLATED_BY_TRAINER = "Trainer(..., data_collator={collated})"


@tip(
    title="Pad each batch to its own longest sequence, and group similar lengths",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
    kernels_only=True,
)
def padded_batches(
    run: RunFacts, step: StepFacts, threads: ThreadFacts, padding: PaddingFacts
) -> Advice | None:
    """Advises shorter rows where much of the computation is on padding."""
    compute = step.share(Phase.FORWARD) + step.share(Phase.BACKWARD)
    multiple = 1 if run.device == "cpu" else FINE if padding.width <= SHORT else COARSE
    if run.device != "cpu":  # what a collator rounds up to already is the user's choice
        multiple = max(multiple, padding.multiple)
    goes = _beyond(padding, multiple)
    if compute < NOTICEABLE or goes + padding.within < LARGE:
        return None
    # Grouped by length, rows are to be cut to the longest of their batch as well, or nothing goes.
    fixed = padding.is_fixed or (goes if padding.multiple > 1 else padding.beyond) >= PART
    beyond = goes if fixed else 0.0
    within = padding.within if padding.within >= PART else 0.0
    width, longest = padding.width, padding.longest
    because = [
        f"{padding.share:.0%} of positions are padding, in {padding.batches} sampled batches",
        f"rows have {width:.0f} positions, sequences {padding.mean:.0f}, a batch's longest {longest:.0f}",
        f"forward and backward compute on all of them, and take {compute:.0%} of the step",
    ]
    if beyond and within:
        because.append(
            f"{padding.beyond:.0%} are padding beyond the batch's longest sequence, {within:.0%} within it"
        )
    at = (padding.at,) if padding.at else ()
    pads = padding.lines[:SHOWN]
    low, likely, high = (
        compute * part * _of_pairs(beyond + within * grouped, _pairs(pairs, width))
        for part, grouped, pairs in zip(_gone(run, threads), GROUPED, PAIRS, strict=True)
    )
    own = _own(pads, multiple, padding) if run.trainer is None else _by_trainer(multiple, padding)
    alike = ALIKE if run.trainer is None or not fixed else GROUPED_BY_TRAINER_SECOND
    return Advice(
        because=tuple(because),
        change=removes(low, likely, high),
        at=(*pads, *at) if fixed else (*at, *pads),
        same_result=not within,
        is_choice=goes < PART and padding.within < LARGE_WITHIN,
        code="\n".join(code for share, code in ((fixed, own), (within, alike)) if share),
        arguments=None if fixed else GROUPED_BY_TRAINER,
    )


def _beyond(padding: PaddingFacts, multiple: int) -> float:
    """The share of positions beyond the longest of a batch that goes where lengths are rounded up."""
    if multiple == 1:
        return padding.beyond
    rounded = math.ceil(padding.longest / multiple) * multiple
    return min(padding.beyond, max(0.0, 1.0 - rounded / padding.width))


def _own(pads: Sequence[Location], multiple: int, padding: PaddingFacts) -> str:
    """How each batch is padded to its own longest sequence, by what pads it now."""
    texts = [line.statement or "" for line in pads]
    before = ROUNDED_FOR_NOTHING.format(multiple=padding.multiple) if multiple < padding.multiple else ""
    if any("padding=" in text or "DataCollator" in text for text in texts):
        collated, told = _collated(multiple, padding)
        told += WHY_ROUNDED if multiple > 1 and not told else ""
        plain = multiple == 1 and not told and not before
        code = TOKENIZED.format(collator=padding.collator.name)
        return before + (code if plain else f"{code}\n{collated}{told}")
    in_batches = not pads or any("pad_sequence" in text for text in texts)
    own = OWN if multiple == 1 else f"rows = {OWN}\n{ROUNDED.format(multiple=multiple)}"
    return before + (own if in_batches else UNPADDED + own)


def _collated(multiple: int, padding: PaddingFacts) -> tuple[str, str]:
    """The collator that pads all that these batches hold, and what to say of their labels."""
    name, objective = padding.collator.name, padding.collator.objective
    more = f", {objective}" if objective else ""
    more += "" if multiple == 1 else f", pad_to_multiple_of={multiple}"
    return COLLATED.format(collator=name, more=more), LABELS.get(name, "")


def _by_trainer(multiple: int, padding: PaddingFacts) -> str:
    """How a trainer pads each batch to its own longest sequence, which its dataset must not have done."""
    collated, told = _collated(multiple, padding)
    before = (
        ROUNDED_FOR_NOTHING.format(multiple=padding.multiple) if multiple < padding.multiple else UNPADDED
    )
    return before + COLLATED_BY_TRAINER.format(collated=collated) + told


def _gone(run: RunFacts, threads: ThreadFacts) -> tuple[float, float, float]:
    """The share of computing on the removed positions that is saved: at worst, likely and at best."""
    if run.device != "cpu":
        return GONE_ON_DEVICE
    if not threads.per_module_s:
        return GONE
    low, likely, high = (
        min(most, max(least, 1.0 - calls_s / threads.per_module_s))
        for most, least, calls_s in zip(GONE, GONE_OF_SMALLEST, CALLS_S, strict=True)
    )
    return low, likely, high


def _pairs(share: float, width: float) -> float:
    """The share of computing on pairs in rows of so many positions, by that in rows of `PAIRS_AT`."""
    times = share / (1.0 - share) * width / PAIRS_AT
    return times / (1.0 + times)


def _of_pairs(share: float, pairs: float) -> float:
    """The share of computing saved, `pairs` of it on pairs of positions, if `share` of the positions goes."""
    return (1.0 - pairs) * share + pairs * (1.0 - (1.0 - share) ** 2)
