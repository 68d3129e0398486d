"""Printing, progress bars and metric writers take a noticeable share of the training time.

## What it sees
Stack samples of the training process fall into prints, progress bars, loggers or metric writers, or into what
is computed for the arguments of such a call alone.

## By hand
    if step % 50 == 0:
        print(...)          # only what prints or writes: no line that training needs

or, where it has an interval already, ten times that; in the loop over epochs, every few epochs.

The arguments of a call are computed before the logger looks at its level: `log.debug(f"{table(rows)}")` makes
the table in each step, even where nothing is written. Ask the logger first:

    if log.isEnabledFor(logging.DEBUG):
        log.debug(f"{table(rows)}")

Where only texts are put together, `log.debug("loss %.3f", loss)` leaves that to the logger.

With a trainer: `Trainer(log_every_n_steps=50)`, `TrainingArguments(logging_steps=50)`; with a progress bar:
`tqdm(..., mininterval=1)`.

Lightning's `self.log(...)` checks, keeps and gathers each value at each call, though the logger writes every
`log_every_n_steps` steps only. Leave out the other steps, or return early in a callback's hook, and hand over
many values in one call (`self.log_dict`). A mean over the epoch (`on_epoch=True`) is then one of fewer steps:

    if (self.global_step + 1) % self.trainer.log_every_n_steps == 0:  # in hooks that run before the update
        self.log(...)

    if not self.trainer.training or ...:  # and first this, where validation or tests log by the same line

## When not
While you debug a script and watch its output. Writers that do their work in a thread of their own cost
little, and the samples show that. On a device, a line that reads a tensor, or hands it to what prints it,
waits for the work before it: that is another finding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from perfdoctor.facts.host.sampled_shares import SURELY
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LineCost, Location, Phase, RunFacts, StackFacts, StepFacts
from perfdoctor.tips._repeated import repeated
from perfdoctor.tips._waiting import line_waits
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.03  # share of step time
SEEN = 5  # samples in those lines: fewer may be chance
EVERY = 50  # steps between two lines that a person still reads as live
RARER = 10  # times longer, where there is an interval already
EPOCHS = 5  # between two lines, of those that the loop over epochs repeats
SURE = 0.5  # of it goes if lines are only thinned out a little
SHOWN = 3  # lines named
SELDOM_ON = re.compile(r"isEnabledFor\((?:logging\.)?DEBUG\)")  # a level that few runs write
HANDED = "most of that is computed before its logger is asked whether it writes at all"
ONLY_LOGS = "...  # only what prints or writes"
TRAINERS = (
    (re.compile(r"\.fit\("), f"Trainer(log_every_n_steps={EVERY})  # and enable_progress_bar=False"),
    (re.compile(r"\.train\("), f"TrainingArguments(logging_steps={EVERY})"),
)
# What Lightning's log is called on: a module.
LOGS_ON = re.compile(r"([A-Za-z_][\w.]*)\.log(?:_dict)?\(")
NOT_EACH_UPDATE = re.compile(r"valid|test|predict|epoch")  # hooks in which the count of steps stands still
OF_TRAINING = re.compile(r"train|optimizer|backward|zero_grad|clipping")  # hooks that only training calls
AFTER_THE_UPDATE = re.compile(r"_batch_end$")  # hooks that find the step counted already
# What a progress bar counts: none of these calls may be left out.
COUNTS = re.compile(r"\b\w*(bar|progress|tqdm)\w*\.(update|advance)\(", re.IGNORECASE)


@tip(
    title="Log less often",
    bottleneck=Bottleneck.HOST,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def logging_every_step(run: RunFacts, step: StepFacts, stacks: StackFacts) -> Advice | None:
    """Advises logging less often where it takes a noticeable share of the step."""
    logging = (line for line in stacks.phases.get(Phase.OTHER, ()) if line.kind == "logging")
    lines = [line for line in logging if not line_waits(run, line)]
    share = min(1.0, sum(line.share for line in lines))
    samples = sum(line.samples for line in lines)
    if share < NOTICEABLE or samples < SEEN:
        return None
    top = lines[0]
    text = f": `{top.at.text}`" if top.at.text else ""
    low = 0.0 if run.on_device else SURE * share  # a device may be busy meanwhile
    ms = share * step.mean_s * 1e3
    each = all(_times(line) == EVERY for line in lines)
    takes = f"{share:.0%} of each step ({ms:.2f} ms)" if each else f"{share:.0%} of the training time"
    gone = min(share, sum(line.share * (1 - 1 / _times(line)) for line in lines))
    return Advice(
        because=(
            f"{takes} goes into logging",
            f"line {top.at.line} takes the most, {top.share:.0%}{' of the step' if each else ''}{text}",
            *([HANDED] if top.asks is not None else []),
        ),
        change=removes(low, gone, share),
        at=_places(lines),
        code=_rarer(top),
        takes=min(1.0, share * (1.0 + SURELY / math.sqrt(samples))),
    )


def _places(lines: Sequence[LineCost]) -> tuple[Location, ...]:
    """The costliest lines; behind the first one, if it calls others to write, the one that does most."""
    inner = [lines[0].inner] if lines[0].inner is not None else []
    places = (lines[0].at, *inner, *(line.at for line in lines[1:]))
    return tuple(dict.fromkeys(places))[:SHOWN]


def _times(line: LineCost) -> int:
    """How many times as rarely it is to run."""
    if line.interval.period is not None or line.interval.is_tested:
        return RARER
    return EVERY if line.interval.of_updates or line.interval.of_lightning else EPOCHS


def _rarer(line: LineCost) -> str:
    """The user's own line at a longer interval, or the setting of the trainer or progress bar for it."""
    text = line.at.statement or "..."
    setting = next((setting for pattern, setting in TRAINERS if pattern.search(text)), None)
    if setting is not None:
        return setting
    if line.interval.of_lightning and line.interval.period is None:
        return _when_lightning_writes(line)
    if text.startswith(("for ", "while ", "with ")) or COUNTS.search(text):
        return "tqdm(..., mininterval=1)  # redraw once a second"
    unknown = line.interval.is_tested and line.interval.period is None
    header = f"if ...:  # {RARER} times as rarely" if unknown else line.interval.rarer(_times(line), EVERY)
    if line.asks is not None:
        return f"{_asked(line, header)}\n    {repeated(line.at) if line.only_reported else ONLY_LOGS}"
    if not line.only_reported or line.interval.is_in_caller or text.startswith("if "):
        return f"{header}\n    {ONLY_LOGS}"
    return f"{header}\n    {repeated(line.at) or '...'}"


def _asked(line: LineCost, header: str) -> str:
    """The logger is asked first; one of debugging seldom writes, and others go by an interval as well."""
    rarely = header.removeprefix("if ").partition(":")[0]
    if SELDOM_ON.search(line.asks or "") or rarely == "...":
        return f"if {line.asks}:"
    return f"if {rarely} and {line.asks}:"


def _when_lightning_writes(line: LineCost) -> str:
    """Lightning's own steps of logging: for the line, or for all of a hook of another object.

    The logger writes what is given in the last of each `log_every_n_steps` steps. What other hooks than those
    of training may call logs for validation and tests, too, which must not lose their values.
    """
    text = line.at.statement or "..."
    hook = (line.at.function or "").rpartition(".")[2]
    if NOT_EACH_UPDATE.search(hook):
        return "self.log_dict(values)  # all of a hook in one call; callbacks may ask for each of them"
    found = LOGS_ON.match(text)
    module = found[1] if found is not None else "self"
    steps = f"{module}.global_step"
    if not AFTER_THE_UPDATE.search(line.at.function or ""):
        steps = f"({steps} + 1)"
    remainder = f"{steps} % {module}.trainer.log_every_n_steps"
    shared = not OF_TRAINING.search(hook)
    if module == "self":
        header = f"if {f'not {module}.trainer.training or ' * shared}{remainder} == 0:"
        return f"{header}\n    {repeated(line.at) if line.only_reported else '...  # only what logs'}"
    return (
        f"if {f'{module}.trainer.training and ' * shared}{remainder}:\n"
        f"    return  # first in {hook or 'the hook'}: no logger writes this step\n"
        f"{module}.log_dict(values)  # and what it logs, in one call"
    )
