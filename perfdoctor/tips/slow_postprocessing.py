"""Metrics, statistics or other work between the steps takes a noticeable share of every step.

## What it sees
Stack samples fall into lines of the training loop on which no update depends, as the source shows, and which
neither log nor save; or into lines of a hook or callback whose results are printed or logged and nothing
else. The line that nearly all of that goes into, in whatever function, is named before the one that calls it.
A line that calls code which cannot be followed is left out.

## By hand
    if step % 50 == 0:
        statistics.update(model)

or, for metrics, in the validation only: during an epoch they describe a model that has changed since.

## When not
Where the result decides how training goes on: an environment, a schedule that follows the loss. On a device,
a line that reads a tensor waits for the work before it: that is another finding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfdoctor.facts.host.between_steps import BetweenLine, BetweenStepsFacts
from perfdoctor.facts.host.debug_modes import CHECKS
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Location, RunFacts, StepFacts
from perfdoctor.tips._repeated import repeated
from perfdoctor.tips._waiting import waits_for_device
from perfdoctor.tips._words import is_about
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step
SEEN = 5  # samples in those lines: fewer may be chance
EVERY = 10  # steps between two values of a statistic that still show its course
SURE = 0.5  # of it goes if it is done every second step
SHOWN = 3  # lines named
# Words of names begin so.
METRICS = re.compile(
    r"accura|f1|(?:roc|pr)?auc$|auroc|precision|recall|bleu|rouge|m?iou$|confus|scor|metric|perplex|evaluat"
    r"|correct(?:s|ly)?$"
)
BINDS = re.compile(r"[\w.\[\], *]+(:[^=]+)?=(?!=)")  # names that lines behind it may need
# Lines that other findings are about, and copies of the state, which are checkpoints.
CLAIMED = re.compile(r"state_dict|deepcopy|\.collect\(|empty_cache|synchronize")


@tip(
    title="Do work that training does not need less often",
    bottleneck=Bottleneck.HOST,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def slow_postprocessing(run: RunFacts, step: StepFacts, between: BetweenStepsFacts) -> Advice | None:
    """Advises every N steps, or in validation, where such work takes a noticeable share of the step."""
    lines = [line for line in between.lines if not _is_claimed(run, line)]
    share = min(1.0, sum(line.share for line in lines))
    if share < NOTICEABLE or sum(line.samples for line in lines) < SEEN:
        return None
    top = lines[0]
    metrics = _is_metric(top)
    low = 0.0 if run.on_device else SURE * share  # a device may be busy meanwhile
    text = f": `{top.at.text}`" if top.at.text else ""
    inside = f", most of it at {_within(top)}" if top.inside != top.at else ""
    ms = share * step.mean_s * 1e3
    places = [place for line in lines[:SHOWN] for place in _places(line)]
    return Advice(
        because=(
            f"{share:.0%} of each step ({ms:.2f} ms) goes into work that training does not need",
            f"line {top.at.line} takes {min(1.0, top.share):.0%} of the step{text}{inside}",
        ),
        change=removes(low, share * (1 - 1 / EVERY), share),
        at=tuple(dict.fromkeys(places)),
        leading=(top.at,),
        code=_moved(top) if metrics and top.test is None else _rarer(lines[:SHOWN]),
    )


def _is_claimed(run: RunFacts, line: BetweenLine) -> bool:
    texts = [text for text in (line.at.statement, line.inside.statement) if text is not None]
    claimed = any(CLAIMED.search(text) or CHECKS.search(text) for text in texts)
    return claimed or waits_for_device(run, line.at, line.inside)


def _places(line: BetweenLine) -> tuple[Location, ...]:
    """Where nearly all of its time goes, if anywhere, and the line itself, which is to run less often."""
    if line.inner is None or line.test is not None:
        return line.at, line.inside
    return line.inner, line.at, line.inside


def _within(line: BetweenLine) -> str:
    """The line that the costly one leads to, in whatever file."""
    inside = line.inside
    return f"line {inside.line}" + ("" if inside.file == line.at.file else f" of {inside.file_name}")


def _is_metric(line: BetweenLine) -> bool:
    inside = line.inside
    return is_about(METRICS, line.at.statement) or is_about(METRICS, inside.statement, inside.function)


def _rarer(lines: Sequence[BetweenLine]) -> str:
    """The line as it is, where nothing else needs what it binds; else that all of them go together."""
    text = repeated(lines[0].at) or "..."
    if lines[0].test is not None:
        return f"if {lines[0].test}:  # where its result is read\n    {text}"
    numbers = sorted({line.at.line for line in lines if line.at.file == lines[0].at.file})
    if len(numbers) > 1:
        told = f"lines {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}, and what only they need"
        return f"if step % {EVERY} == 0:\n    ...  # {told}"
    if BINDS.match(text):
        return f"if step % {EVERY} == 0:\n    {text}  # and what uses its result"
    return f"if step % {EVERY} == 0:\n    {text}"


def _moved(line: BetweenLine) -> str:
    return f"# in the validation loop, on the model as it is then:\n{repeated(line.at) or '...'}"
