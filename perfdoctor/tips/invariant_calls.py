"""A loop inside a step makes a call again at each of its turns that gives the same every time.

## What it sees
Stack samples show a noticeable share of the step below one call in a loop of yours, the training loop left
out. Nothing that the call is given is set or changed in the loop, and it changes nothing itself: it lists
what a module, a tokenizer or a table holds, or its source is yours and shows it.

## By hand
    theirs = student.state_dict()                        # once, before the loop: a list of all tensors
    for name, ours in teacher.state_dict().items():
        ours.lerp_(theirs[name], 0.01)                   # and not student.state_dict()[name]

    numbers = tokenizer.get_vocab()                      # a new dictionary at each call
    ids = [numbers[word] for word in words]

## When not
Where a turn changes what the call gives in a way that the source does not show.
"""

from __future__ import annotations

import re

from perfdoctor.facts.host.invariant_calls import InvariantCall, InvariantCallFacts
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step
SEEN = 5  # samples below such calls: fewer may be chance
SURE, LIKELY = 0.5, 0.95  # of it goes: the first turn still calls, and of few turns that is much
SHOWN = 3  # lines named
GENERATES = re.compile(r"(?:\b(?:parameters|buffers|children|modules)|named_\w+)\([^()]*\)$")  # of a module


@tip(
    title="Call once, before the loop, what is the same at each turn",
    bottleneck=Bottleneck.HOST,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
    rivals=(
        "tensor-loops",
        "many-small-calls",
        "costly-line",
        "slow-postprocessing",
        "slow-dataset-code",
        "batches-built-in-the-loop",
        "repeated-calls",
        "repeated-item-work",
    ),
)
def invariant_calls(invariant: InvariantCallFacts) -> Advice | None:
    """Names such calls where they take a noticeable share of the step."""
    share = min(1.0, sum(call.share for call in invariant.calls))
    if share < NOTICEABLE or sum(call.samples for call in invariant.calls) < SEEN:
        return None
    shown = [call for call in invariant.calls[:SHOWN] if call.share >= 0.1 * share]
    of_batch = min(1.0, sum(call.of_batch for call in invariant.calls))
    of_step = min(1.0, sum(call.share for call in invariant.calls if not call.of_batch))
    return Advice(
        because=tuple(map(_said, shown)),
        change=Change(step=_gone(of_step), batch=_gone(of_batch)),
        at=tuple(call.at for call in shown),
        bottleneck=shown[0].bottleneck,
        code=f"same = {_kept(shown[0].call)}  # once, before the loop at line {shown[0].loop}",
    )


def _kept(call: str) -> str:
    """What can be gone through more than once."""
    return f"list({call})" if GENERATES.search(call) else call


def _gone(share: float) -> Estimate:
    return Estimate(SURE * share, LIKELY * share, share)


def _said(call: InvariantCall) -> str:
    text = f": `{call.at.text}`" if call.at.text else ""
    same = f"`{call.call}` is the same at each turn of the loop at line {call.loop}"
    return f"{call.share:.0%} of each step goes into line {call.at.line}, where {same}{text}"
