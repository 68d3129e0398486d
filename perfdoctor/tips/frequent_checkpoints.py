"""Saving checkpoints takes a noticeable share of the run.

## What it sees
The training process saves several times, and `torch.save` and the work around it take a noticeable share of
the time.

## By hand
    if step % 1000 == 0:
        torch.save(...)

or hand a copy of the state to a background thread that writes it (`torch.distributed.checkpoint.async_save`).
With a trainer: `ModelCheckpoint(every_n_train_steps=1000)`, `TrainingArguments(save_steps=1000)`.

## When not
Where the machine may be taken away at any minute, frequent checkpoints are worth their time. A single save at
the end is not reported.
"""

from __future__ import annotations

import re

from perfdoctor.facts.steps.events import SaveFacts
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Location, Phase, StepFacts
from perfdoctor.model.units import every
from perfdoctor.tips._repeated import repeated
from perfdoctor.tips.catalogue import Checked, tip

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
    """Advises a longer interval where saving takes a noticeable share of the run."""
    saved = step.share(Phase.CHECKPOINT)
    share = min(saved + saves.beside_share, 0.99)
    if saves.count < SEVERAL or share < NOTICEABLE or saves.steps_between is None:
        return None
    each_s = share * step.mean_s * saves.steps_between
    size = f" of {saves.bytes / 1e6:.1f} MB" if saves.bytes else ""
    own = (saves.at,) if saves.at else ()
    beside = _elsewhere(saves)
    places = (*beside, *own) if saves.beside_share > saved else (*own, *beside)
    return Advice(
        because=(
            f"saving takes {share:.0%} of the training time",
            f"a checkpoint{size} {every(saves.steps_between, 'step')}, {each_s * 1e3:.0f} ms each",
        ),
        change=_rarer_change(min(saved, share), max(0.0, share - saved), saves),
        at=places,
        code=_rarer(saves, max(1, round(saves.steps_between * RARER))),
        phase=None if beside else Phase.CHECKPOINT,  # what lies beside is in no phase of its own
    )


def _rarer_change(saved: float, beside: float, saves: SaveFacts) -> Change:
    """Where saves come at a longer interval: of all that a script makes one stays, whatever the interval."""
    likely = 1 - 1 / (RARER if saves.goes_on else min(RARER, saves.count))
    return Change(
        pauses=Estimate(min(SURE, likely) * saved, likely * saved, saved),
        step=Estimate(min(SURE, likely) * beside, likely * beside, beside),
    )


def _elsewhere(saves: SaveFacts) -> tuple[Location, ...]:
    """The lines that save, or prepare it, other than the one that writes most of what torch saves."""
    own = (saves.at.file, saves.at.line) if saves.at else None
    return tuple(at for at in saves.beside if (at.file, at.line) != own)


def _rarer(saves: SaveFacts, every: int) -> str:
    """The user's own line at a longer interval, or the trainer's setting for it."""
    text = (saves.at.statement if saves.at else None) or ""
    setting = next((setting for pattern, setting in TRAINERS if pattern.search(text)), None)
    if setting is not None:
        return setting.format(every)
    alone = saves.only_reported and not _elsewhere(saves) and not saves.interval.is_in_caller
    shown = alone and text and not text.startswith(("for ", "with ", "if "))
    call = repeated(saves.at) if shown else "...  # the lines that save, and nothing else"
    return f"{saves.interval.rarer(RARER, every)}\n    {call}"
