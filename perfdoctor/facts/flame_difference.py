"""Lays the stack samples of two runs over each other: RunDifference."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from perfdoctor.facts.call_tree import CallTree, key_of, laid_out
from perfdoctor.facts.flames import (
    MAIN,
    MOST_FRAMES,
    MOST_OF_OTHERS,
    WORKERS,
    above,
    group_of,
    phase_key,
    sampled_rank,
    working_folder,
)
from perfdoctor.facts.gather import first_trained
from perfdoctor.facts.recorded import recorded_stacks
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.flame import DifferenceFrame, FlameDifference, RunDifference
from perfdoctor.model.measured import StepFacts
from perfdoctor.model.recorded import RecordedStack
from perfdoctor.runs.types import RunRecords

SURELY = 2.0  # standard deviations between two counts: what is nearer can be chance
BEFORE, AFTER = "before", "after"


@dataclass(frozen=True)
class ComparedRun:
    """One of the two: its records, and the step of the lowest rank that trained, if one did."""

    records: RunRecords
    step: StepFacts | None

    def stacks(self, group: str) -> list[RecordedStack]:
        """The samples of one kind of thread."""
        own = sampled_rank(self.records, first_trained(self.records)[0])
        every = (
            recorded_stacks(own, self.step.seconds if self.step is not None else {})
            if own is not None
            else ()
        )
        return [stack for stack in every if group_of(stack) == group]


def run_difference(before: ComparedRun, after: ComparedRun) -> RunDifference:
    """What the second run does longer or shorter than the first.

    Of the training thread in seconds of a step: the timers tell how long a phase takes, samples how it is
    shared out, so neither the length of a run nor how often it was sampled matters. Of loader workers, and
    where a run made no step, in shares of the samples. Frames of the user's are the same where their function
    is, for lines move when a script is changed.
    """
    timed = before.step is not None and after.step is not None
    name = str(before.records.run.get("id") or before.records.path.name)
    return RunDifference(
        name,
        dict(before.step.seconds) if timed and before.step is not None else {},
        dict(after.step.seconds) if timed and after.step is not None else {},
        tuple(_differences(before, after, timed)),
    )


def _differences(before: ComparedRun, after: ComparedRun, timed: bool) -> Iterator[FlameDifference]:
    for group, most in ((MAIN, MOST_FRAMES), (WORKERS, MOST_OF_OTHERS)):
        tree, in_seconds = CallTree(), timed and group == MAIN
        for side, run in ((BEFORE, before), (AFTER, after)):
            _add(tree, side, run, group, in_seconds)
        counts = int(tree.amounts[f"{BEFORE} samples"]), int(tree.amounts[f"{AFTER} samples"])
        if all(counts):
            totals = (tree.amounts[BEFORE], tree.amounts[AFTER])
            yield FlameDifference(group, *totals, counts, in_seconds, tuple(_frames(tree, most, in_seconds)))


def _add(tree: CallTree, side: str, run: ComparedRun, group: str, in_seconds: bool) -> None:
    stacks, cwd = run.stacks(group), working_folder(run.records)
    counted: Counter[str] = Counter()
    for stack in stacks:
        counted[stack.phase if in_seconds else ""] += stack.samples
    whole = _seconds(run.step) if in_seconds else {"": 1.0}
    for stack in stacks:
        phase = stack.phase if in_seconds else ""
        amount = whole.get(phase, 0.0) * stack.samples / counted[phase]
        frames = (key_of(name, cwd, with_line=False) for name in stack.frames)
        tree.add((*above(group, stack), *frames), {side: amount, f"{side} samples": stack.samples})
    for phase, value_s in whole.items():
        if in_seconds and value_s and phase not in counted:  # too short to be met by a sample
            tree.add((phase_key(phase),), {side: value_s})


def _seconds(step: StepFacts | None) -> Mapping[str, float]:
    return {phase.value: value_s for phase, value_s in step.seconds.items()} if step is not None else {}


def _weight(amounts: Mapping[str, float]) -> float:
    return amounts.get(BEFORE, 0.0) + amounts.get(AFTER, 0.0)


def _frames(tree: CallTree, most: int, in_seconds: bool) -> Iterator[DifferenceFrame]:
    """The frames. Timers are sure of the seconds of a phase; how they are shared out, the samples tell."""
    is_sampled = True  # the phase that a frame is in, by both runs if it is in both
    for laid in laid_out(tree, _weight, most):
        before, after = (laid.amounts.get(side, 0.0) for side in (BEFORE, AFTER))
        is_phase = in_seconds and not laid.depth
        if is_phase:
            is_sampled = all(
                laid.amounts.get(f"{side} samples") or not laid.amounts.get(side) for side in (BEFORE, AFTER)
            )
        doubt = math.hypot(_doubt(laid.amounts, BEFORE), _doubt(laid.amounts, AFTER))
        is_sure = is_phase or (is_sampled and abs(after - before) > SURELY * doubt)
        yield DifferenceFrame(*laid.key, laid.depth, laid.left, laid.width, before, after, is_sure)


def _doubt(amounts: Mapping[str, float], side: str) -> float:
    """The standard deviation of an amount, by how often it was seen."""
    samples = amounts.get(f"{side} samples", 0.0)
    return amounts.get(side, 0.0) / math.sqrt(samples) if samples else 0.0
