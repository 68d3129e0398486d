"""Saving checkpoints takes a visible share of the run.

## What it sees
The training process spends a real share of its time in `torch.save` and the work around it, several times.

## By hand
    if step % 1000 == 0:
        torch.save(...)

or hand a copy of the state to a thread that writes it (`torch.distributed.checkpoint.async_save`). With a
trainer: `ModelCheckpoint(every_n_train_steps=1000)`, `TrainingArguments(save_steps=1000)`.

## When not
Where a machine may be taken away at any minute, a checkpoint is worth its time. Saving once, at the end, is
no finding.
"""

from __future__ import annotations

import re

from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck, Phase, SaveFacts, StepFacts

NOTICEABLE = 0.03  # share of wall time
SEVERAL = 2  # saves: one alone is not frequent
RARER = 10  # times longer between two saves, as the likely change
SURE = 0.5  # of it goes if the interval is only doubled
TRAINERS = (
    (re.compile(r"\.fit\("), "ModelCheckpoint(every_n_train_steps={})"),
    (re.compile(r"\.train\("), "TrainingArguments(save_steps={})"),
)


@tip(
    title="Save checkpoints less often, or in the background",
    bottleneck=Bottleneck.HOST,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def frequent_checkpoints(step: StepFacts, saves: SaveFacts) -> Advice | None:
    """A longer interval, where saving is a visible share of the run."""
    share = min(step.share(Phase.CHECKPOINT) + saves.beside_share, 0.99)
    if saves.count < SEVERAL or share < NOTICEABLE or saves.steps_between is None:
        return None
    each_s = share * step.mean_s * saves.steps_between
    size = f" of {saves.bytes / 1e6:.1f} MB" if saves.bytes else ""
    return Advice(
        because=(
            f"saving takes {share:.0%} of the training time",
            f"a checkpoint{size} every {saves.steps_between:.0f} steps, {each_s * 1e3:.0f} ms each",
        ),
        change=removes(SURE * share, share * (1 - 1 / RARER), share),
        at=(saves.at,) if saves.at else (),
        code=_rarer(saves.at.text if saves.at else None, max(1, round(saves.steps_between * RARER))),
    )


def _rarer(text: str | None, every: int) -> str:
    """The user's own line at a longer interval; the setting, where a trainer does it."""
    text = text or "torch.save(...)"
    setting = next((setting for pattern, setting in TRAINERS if pattern.search(text)), None)
    return setting.format(every) if setting is not None else f"if step % {every} == 0:\n    {text}"
