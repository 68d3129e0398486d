"""A module runs again on the same input in one step, although its parameters do not change in between.

## What it sees
In steps sampled call by call, calls of one module had the same unmodified arguments, the same parameters
and the same result; their lines are named. Calls that draw random numbers, as with dropout, count where both
record gradients, backward goes through one of them only, and the source does not show that the update needs
the values of the other. Of `nn.MultiheadAttention` that is given the same keys and values with one query
after another, as by a decoder that goes step by step over what was encoded once, the projections of keys and
values count, by their share of the multiply-adds. Where backward goes through all of the calls, it repeats as
well. Recomputation inside backward (activation checkpointing) does not count.

## By hand
    output = model(x)                       # once
    loss = criterion(output, y)
    accuracy = (output.detach().argmax(1) == y).float().mean()

    k, v = project(nodes)                   # once, before the loop: heads apart, (batch, heads, nodes, width)
    for step in range(steps):
        attended = F.scaled_dot_product_attention(queries(state), k, v)

## When not
Where there is not enough memory to keep the first result. Where the second pass has to draw other random
numbers, as a target does: then run it under `torch.no_grad()`. Batch normalisation updates its running
statistics in each pass: with one pass they adapt half as fast.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfdoctor.facts.script.module_calls import Repeat, RepeatedCallFacts
from perfdoctor.model.change import Effort, Estimate, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Phase, RunFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.03  # share of the step
MOSTLY = 0.5  # of the sampled steps: fewer are exceptions
BACKWARD = 2.0  # times a forward: each product has two gradients
FORWARD = 1 / 3  # of forward and backward together, by the same count
SURE = 0.9  # of the time of what is repeated, at the least
SURE_BACKWARD = 1.0  # times a forward: one of the two gradients at least
OF_A_CALL = 0.5  # of projections, at the least: multiply-adds say nothing of what a call takes at any size
SHOWN = 3  # repeats told, and lines

ONCE = "output = module(x)  # once; output.detach() for metrics"
PROJECTED = """k, v = project(nodes)  # once, before the loop
attended = F.scaled_dot_product_attention(q, k, v)"""


@tip(
    title="Run the module once and reuse its output",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
)
def repeated_forward(run: RunFacts, step: StepFacts, repeats: RepeatedCallFacts) -> Advice | None:
    """Advises one pass instead of several where the others repeat the first."""
    found = _together([one for one in repeats.repeats if not one.parametrizes and one.seen >= MOSTLY])
    share = _share(found)
    if share < NOTICEABLE:
        return None
    gone = _gone(found, step) if run.device == "cpu" else _gone_from_device(found, step)
    lines = tuple(dict.fromkeys(at for one in found for at in (one.again, one.first)))
    kinds = dict.fromkeys(PROJECTED if one.projections else ONCE for one in found)
    return Advice(
        because=(
            f"{_repeats(found[0])} (in {found[0].seen:.0%} of {repeats.samples} sampled steps)",
            *map(_repeats, found[1:SHOWN]),
            _takes(found),
        ),
        change=removes(gone.low, gone.likely, gone.high),
        at=lines[:SHOWN],
        code="\n".join(kinds),
    )


def _together(found: Sequence[Repeat]) -> Sequence[Repeat]:
    """What one rewrite cures, costliest first: a pass that differs by chance is looked at by itself."""
    alike = [one for one in found if not one.by_chance]
    by_chance = [one for one in found if one.by_chance][:1]
    return max(alike, by_chance, key=_share)


def _share(found: Sequence[Repeat]) -> float:
    return min(1.0, sum(one.share for one in found))


def _gone(found: Sequence[Repeat], step: StepFacts) -> Estimate:
    """What goes from a step on the CPU."""
    share, backward = _share(found), step.share(Phase.BACKWARD)
    most = min(1.0, share + backward)
    low = sum(
        SURE * one.share * (1 + SURE_BACKWARD * one.walked) * (OF_A_CALL if one.projections else 1)
        for one in found
    )
    likely = share + BACKWARD * sum(one.share for one in found if one.walked)
    # more backward than the other passes explain may go as well
    recorded = sum(one.share for one in found if one.recording and not one.by_chance)
    unexplained = max(0.0, backward - BACKWARD * (step.share(Phase.FORWARD) - share))
    high = max(likely, share + min(unexplained, BACKWARD * recorded))
    return Estimate(min(low, most), min(likely, most), min(high, most))


def _gone_from_device(found: Sequence[Repeat], step: StepFacts) -> Estimate:
    """The host's time for what is repeated tells which part of the device's work it is."""
    forward, backward = step.share(Phase.FORWARD), step.share(Phase.BACKWARD)
    part = min(1.0, _share(found) / forward) if forward > 0 else 0.0
    both = part * (forward + backward)
    most = both / (1 + BACKWARD * (1 - part)) if found[0].by_chance else both  # backward stays
    return Estimate(FORWARD * both / 2, FORWARD * both, most)


def _repeats(repeat: Repeat) -> str:
    first, again = repeat.first, repeat.again
    lines = f"line {first.line}" if first == again else f"lines {first.line} and {again.line}"
    times = "twice" if round(repeat.times) <= 2 else f"{repeat.times:.0f} times"
    if repeat.projections:
        return f"{repeat.module} projects the same keys and values {times}, on {lines}"
    return f"{repeat.module} is called {times} with the same input, on {lines}"


def _takes(found: Sequence[Repeat]) -> str:
    """What the passes take that are not needed."""
    share, only = f"{_share(found):.1%} of the step", found[0]
    backward = "; backward goes through all of them" if any(one.walked for one in found) else ""
    if len(found) > 1:
        left = len(found) - SHOWN
        others = f" ({left} more {'is' if left == 1 else 'are'} like these)" if left > 0 else ""
        return f"all but the first of each take {share}{others}{backward}"
    if only.projections:
        return f"all projections but the first take about {share}{backward}"
    if round(only.times) > 2:
        return f"all passes but the first take {share} and repeat the same result{backward}"
    why = "repeats the same result"
    if only.walked:
        why += "; backward goes through both"
    if only.by_chance:
        why = "differs by chance only, as by dropout; backward does not use its result"
    return f"the second pass takes {share} and {why}"
