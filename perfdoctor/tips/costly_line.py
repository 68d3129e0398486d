"""One line takes a large part of the step, and no other finding is about it.

## What it sees
Stack samples put at least a tenth of the step below one line of your code, or below a few lines of one
function that follow each other or call the same function of a library: in the dataset or in the sampler
while training waits, in Python or in another library inside the model, in operators that sort, search or
decompose, or between the phases. Where time is spread over many lines of a function, so that none takes most
of it, the line that calls the function is named, and the costliest ones after it. Products of layers, the
loss and the update do not count: they are what training is for. Time that another finding is about does not
count either.

## By hand
Look at the line and at what it runs. Does training need it? In every step? Does it grow with the batch, or
with the length of the run? Can it work on whole tensors, run once before the loop, or run in a loader worker?

    python -m cProfile -s tottime train.py       # which functions it calls, and how often

A draw of a few of many by their weights goes over all of them each time: numpy's `choice(..., p=...)` checks
them and adds them up, `random.choices(..., weights=...)` and `torch.multinomial` add them up, and
`np.random.choice(..., replace=False)` permutes all. Where the weights stay the same, add them up once:

    cumulative = np.cumsum(weights)
    chosen = cumulative.searchsorted(rng.random(count) * cumulative[-1], side="right")

Where a few of them change at each step, as in prioritised replay, keep their sums in a tree; or draw for many
batches at once. Without weights, `np.random.default_rng().choice(n, count, replace=False)` permutes nothing.

A line that compares all rows of a table, all values of an array or all items of a list to find a few: sort
them into groups once, before the loop, and look them up.

## When not
Where the line is the point of the training: a simulator, an environment, a search. Then the finding only says
what it costs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter

from perfdoctor.facts.host.sampled_shares import SURELY
from perfdoctor.facts.host.suspects import Suspect, SuspectFacts
from perfdoctor.model.change import Change, Effort, Estimate, removes
from perfdoctor.model.concluded import Advice, Bottleneck, class_of
from perfdoctor.model.coverage import Covered, Place
from perfdoctor.model.lines import StepLines, WaitPart
from perfdoctor.model.measured import PAUSES, Location, Phase, RunFacts, StepFacts
from perfdoctor.tips._passes_over_all import GOES, cure
from perfdoctor.tips._spread import SpreadCall, spread_call
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of the step: below it the place of a line is no news
SEEN = 10  # samples: of fewer, a third may be chance
SHOWN = 3  # lines named
STEP = frozenset({Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER})
LIKELY = 0.5  # of it goes: nothing is known between none and all
WHERE = {
    Phase.DATA_WAIT: "while training waits for data",
    Phase.HOST_TO_DEVICE: "in copies to the device",
    Phase.FORWARD: "in the forward pass",
    Phase.BACKWARD: "in the backward pass",
    Phase.GRAD_SYNC: "while gradients are synchronised",
    Phase.OPTIMIZER: "in the optimizer's update",
    Phase.VALIDATION: "in validation",
    Phase.CHECKPOINT: "in checkpoints",
    Phase.OTHER: "between the phases",
}
WAITS = {
    WaitPart.SAMPLER: "in the sampler",
    WaitPart.DATASET: "in the dataset",
    WaitPart.COLLATE: "in collating",
}
OF_A_BATCH = (WaitPart.DATASET, WaitPart.COLLATE)  # the rest is the training thread's own


@tip(
    title="Look at the costliest line that no other finding explains",
    bottleneck=Bottleneck.HOST,
    effort=Effort.LINES,
    general=True,
    checked=Checked.SCRIPTS,
)
def costly_line(
    run: RunFacts, step: StepFacts, lines: StepLines, suspects: SuspectFacts, covered: Covered
) -> Advice | None:
    """Names the innermost line that takes a tenth of the step, of the time that no other finding is about."""
    around = _around(lines)
    left = covered.left(suspects.suspects, around)
    every = [part for part in zip(suspects.suspects, left, strict=True) if part[1] > 0]
    found, parts = _costliest(every, suspects)
    spread = _spread(found, parts, every, suspects, around)
    if spread is not None:
        found, parts = [spread.at], list(spread.parts)
    share = min(1.0, sum(share for _, share in parts), suspects.room)
    samples = sum(suspect.samples for suspect, _ in parts)
    if not found or share < NOTICEABLE or samples < SEEN:
        return None
    top, at = parts[0][0], found[0]
    code = cure(at.statement)
    inner = (suspect.path[-1] for suspect, _ in parts)
    inside = (place for place, _ in spread.lines) if spread is not None else inner
    others = (place for place in inside if not any(_same(place, one) for one in found))
    return Advice(
        because=(
            f"{share:.0%} of each step ({share * step.mean_s * 1e3:.2f} ms) goes into {_into(found, top)}",
            *(_runs(top, at, lines) if spread is None else _inside(spread)),
            "no other finding is about this time" + ("" if code else "; how much of it can go is not known"),
        ),
        change=_change(top, share, suspects.own_batches, GOES if code else (0.0, LIKELY, 1.0)),
        at=tuple(dict.fromkeys((*found, *others)))[:SHOWN],
        bottleneck=_class(top, run.on_device),
        code=code,
        takes=min(1.0, share * (1.0 + SURELY / math.sqrt(samples))),
    )


def _into(found: Sequence[Location], top: Suspect) -> str:
    """What the time goes into, in words."""
    at = found[0]
    text = f": `{at.text}`" if at.text else ""
    here = f"line {at.line}, {_where(top)}{text}"
    numbers = [str(number) for number in sorted({line.line for line in found})]
    return here if len(numbers) == 1 else f"lines {_and(numbers)}, most of it into {here}"


def _runs(top: Suspect, at: Location, lines: StepLines) -> list[str]:
    runs = next((line.runs for line in lines.lines if _same(line.at, at) and line.phase is top.phase), ())
    return [f"it runs {', '.join(runs)}"] if runs else []


def _inside(spread: SpreadCall) -> list[str]:
    """Of a call, where below it the time goes."""
    line, share = spread.lines[0]
    most = f"line {line.line} of {line.file_name} takes the most, {share:.0%} of the step"
    return [f"it is spread over {len(spread.lines)} lines below `{spread.function}`: {most}"]


def _spread(
    found: Sequence[Location],
    parts: Sequence[tuple[Suspect, float]],
    every: Sequence[tuple[Suspect, float]],
    suspects: SuspectFacts,
    around: frozenset[Place],
) -> SpreadCall | None:
    """The call to name in place of a line that takes little of it; none where a line's cure is known."""
    if not found or any(cure(at.statement) for at in found):
        return None
    return spread_call(max(parts, key=itemgetter(1))[0], every, suspects, around)


def _and(numbers: Sequence[str]) -> str:
    return f"{', '.join(numbers[:-1])} and {numbers[-1]}"


def _around(lines: StepLines) -> frozenset[Place]:
    """The lines that whole steps run below: the user's own last ones in passes and updates alike."""
    seen = defaultdict(set)
    for line in lines.lines:
        seen[line.at.file, line.at.line].add(line.phase)
    return frozenset(place for place, phases in seen.items() if phases >= STEP)


def _costliest(
    parts: Sequence[tuple[Suspect, float]], suspects: SuspectFacts
) -> tuple[list[Location], list[tuple[Suspect, float]]]:
    """Of the innermost lines that together take enough, those that take most, and what lies below them.

    The costliest line comes first.
    """
    shares: dict[tuple[Phase, str, int], float] = defaultdict(float)
    for suspect, share in parts:
        for key in {(suspect.phase, at.file, suspects.first(suspect.phase, at)) for at in suspect.path}:
            shares[key] += share
    below: dict[tuple[Phase, str, int], list[tuple[Suspect, float]]] = defaultdict(list)
    of_line: dict[tuple[Phase, str, int], dict[Location, float]] = defaultdict(lambda: defaultdict(float))
    for suspect, share in parts:
        for at in reversed(suspect.path):
            key = suspect.phase, at.file, suspects.first(suspect.phase, at)
            if shares[key] >= NOTICEABLE:
                below[key].append((suspect, share))
                of_line[key][at] += share
                break
    if not below:
        return [], []
    most = max(below, key=lambda key: sum(share for _, share in below[key]))
    lines = of_line[most]
    return sorted(lines, key=lambda at: -lines[at]), below[most]


def _change(suspect: Suspect, share: float, own_batches: float, goes: tuple[float, float, float]) -> Change:
    """A part of a line's time goes: from the step, a pause, or where it prepares a batch there, from that."""
    of_batch = suspect.wait in OF_A_BATCH and suspect.phase is Phase.DATA_WAIT and own_batches > 0
    most = min(1.0, share / own_batches) if of_batch else share
    low, likely, high = (each * most for each in goes)
    if suspect.phase in PAUSES:
        return Change(pauses=Estimate(low, likely, high))
    if suspect.phase is not Phase.DATA_WAIT or not own_batches:
        return removes(low, likely, high)
    part = Estimate(low, likely, high)
    return Change(batch=part) if of_batch else Change(others=part)


def _same(at: Location, other: Location) -> bool:
    return (at.file, at.line) == (other.file, other.line)


def _where(suspect: Suspect) -> str:
    """Where a line runs, in words."""
    part = WAITS.get(suspect.wait) if suspect.wait is not None else None
    worker = " of a loader worker" if suspect.in_worker else ""
    return f"{part}{worker}, {WHERE[suspect.phase]}" if part else WHERE[suspect.phase]


def _class(suspect: Suspect, on_device: bool) -> Bottleneck:
    """What the time is charged to; beside a device that idles, computing is the host's."""
    found = class_of(Phase.OTHER if suspect.kind is not None else suspect.phase, suspect.kind)
    return Bottleneck.HOST if on_device and found is Bottleneck.COMPUTE else found
