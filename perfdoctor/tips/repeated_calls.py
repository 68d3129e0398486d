"""The training loop calls a function again with arguments that it has had, and gets the same again.

## What it sees
Between an update and the next forward, where a loop without a DataLoader makes its batches, calls of one of
your functions had arguments and results of earlier ones in a few steps that were looked at, and its source
shows that it does no more than give a result. Where few calls repeated an earlier one, those that did tell
how many different arguments there are: once all have come, each call repeats one. Values are compared by
their sizes and by parts of what they hold.

## By hand
    @functools.lru_cache(maxsize=None)                   # arguments that can be hashed: numbers, texts, paths
    def encode(text):
        ...

    table = [encode(text) for text in texts]             # or once, before the loop

## When not
Where the result is changed afterwards: then each call needs a copy of it. Where all results together take
more memory than there is.
"""

from __future__ import annotations

from perfdoctor.facts.host.repeated_calls import RepeatedFunction, RepeatedFunctionFacts
from perfdoctor.model.change import Change, Effort
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips._came_again import cached, came_again, goes
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step
SEEN = 5  # samples in those calls: fewer may be chance
SHOWN = 3  # lines named


@tip(
    title="Keep what a function gave for the same arguments",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
    rivals=(
        "batches-built-in-the-loop",
        "many-small-calls",
        "small-cache",
        "costly-line",
        "slow-postprocessing",
        "recomputed-constants",
    ),
)
def repeated_calls(step: StepFacts, repeated: RepeatedFunctionFacts) -> Advice | None:
    """Names the lines with such calls where they take a noticeable share of the step."""
    share = min(1.0, sum(call.share for call in repeated.calls))
    if share < NOTICEABLE or sum(call.samples for call in repeated.calls) < SEEN:
        return None
    ms = share * step.mean_s * 1e3
    shown = [call for call in repeated.calls[:SHOWN] if call.share >= 0.1 * share]
    return Advice(
        because=(
            f"{share:.0%} of each step ({ms:.1f} ms) goes into calls that gave the same before",
            *map(_said, shown),
        ),
        change=Change(step=goes(share)),
        at=tuple(call.at for call in shown),
        bottleneck=shown[0].bottleneck,
        code=_cure(shown[0]),
    )


def _said(call: RepeatedFunction) -> str:
    text = f": `{call.at.text}`" if call.at.text else ""
    came = came_again(call.name, call.seen, call.arguments, call.in_all)
    return f"line {call.at.line} takes {call.share:.0%}: {came}{text}"


def _cure(call: RepeatedFunction) -> str:
    if call.arguments > 1:
        return cached(call.name)
    return f"result = {call.name}(...)  # once, before the loop"
