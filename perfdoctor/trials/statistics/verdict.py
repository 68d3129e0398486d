"""What came out for one variant: its executions against the originals of the same rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from statistics import median

from perfdoctor.model.concluded import Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.trial import (
    LEAST_ROUNDS,
    ORIGINAL,
    Execution,
    ExecutionEnd,
    Outcome,
    Place,
    Variant,
    VariantResult,
)
from perfdoctor.model.units import count
from perfdoctor.trials.plan import LEAST_TURNS, resizing
from perfdoctor.trials.statistics import losses, payoff, speedup
from perfdoctor.tweaks import BITWISE, PATH, RESULTS

SAME_SAMPLES = 0.02  # samples in a step may differ by this share: the last batch of an epoch is smaller
BROKEN: Mapping[ExecutionEnd, Outcome] = {
    ExecutionEnd.FAILED: Outcome.FAILED,
    ExecutionEnd.OUT_OF_MEMORY: Outcome.OUT_OF_MEMORY,
    ExecutionEnd.TOO_SHORT: Outcome.FAILED,
    ExecutionEnd.NO_STEPS: Outcome.FAILED,
}


@dataclass(frozen=True)
class Rounds:
    """Executions of a variant, each beside the original of its round."""

    both: tuple[tuple[Execution, Execution], ...]

    @classmethod
    def of(cls, originals: Sequence[Execution], executions: Sequence[Execution]) -> Rounds:
        """The rounds in which both were measured, where they took turns in enough of the same ones."""
        by_round = {original.round: original for original in originals if _is_whole(original)}
        return cls(
            tuple(
                (by_round[execution.round], execution)
                for execution in executions
                if _is_whole(execution)
                and execution.round in by_round
                and _share_turns(by_round[execution.round], execution)
            )
        )

    @cached_property
    def per_sample(self) -> bool:
        """Whether a step of the variant holds another number of samples: then samples are compared.

        Where samples are not counted, each rank is taken to hold as many.
        """
        held = [(_samples(original), _samples(variant)) for original, variant in self.both]
        if not self.counted and any(original.ranks != variant.ranks for original, variant in self.both):
            return True
        return any(
            before is not None and after is not None and abs(after / before - 1.0) > SAME_SAMPLES
            for before, after in held
        )

    @property
    def counted(self) -> bool:
        """Whether it is known how many samples steps hold."""
        return all(_samples(execution) is not None for pair in self.both for execution in pair)

    @property
    def costs(self) -> list[speedup.Round]:
        """(original's, variant's) seconds per step, or per sample: in each pair of turns of each round."""
        return [
            [
                pair
                for pair in zip(self._costs_s(original), self._costs_s(variant), strict=False)
                if all(map(math.isfinite, pair))
            ]
            for original, variant in self.both
        ]

    def _costs_s(self, execution: Execution) -> list[float]:
        """In each turn; in one that was disturbed, no number."""
        assert execution.step_s is not None  # of what was measured
        held = (_samples(execution) if self.counted else execution.ranks) or 1.0
        each_s = execution.turns_s or (execution.step_s,)
        return [step_s / held if self.per_sample else step_s for step_s in each_s]


def verdict(
    variant: Variant,
    executions: Sequence[Execution],
    originals: Sequence[Execution],
    more: Sequence[Execution],
    planned_rounds: int,
    predicted: Gain | None,
    base: Variant = ORIGINAL,
    is_last: bool = False,
) -> VariantResult:
    """The verdict on a variant that was executed beside `originals`; `more` of them only show the losses.

    `base` is what these executed: what it changes is in the losses of both. `is_last` as in speedup.compare.
    """
    result = VariantResult(variant, Outcome.NOT_MEASURED, "", tuple(executions), predicted=predicted)
    finished = [execution for execution in executions if execution.ending is not ExecutionEnd.INTERRUPTED]
    if not finished:
        return replace(result, because="the trial ended before it was measured")
    last = finished[-1]
    failed = last if last.ending in BROKEN else None
    if failed is not None:
        finished = finished[:-1]
        if len(Rounds.of(originals, finished).both) < LEAST_ROUNDS:
            return replace(result, outcome=BROKEN[failed.ending], because=_why_broken(failed))
        last = finished[-1]
    withdrawn = [place for execution in finished for place in execution.withdrawn]
    if withdrawn:  # some steps were measured with it, and some without
        return replace(result, outcome=Outcome.WITHDRAWN, because=_why_withdrawn(withdrawn))
    if last.broken:
        return replace(
            result, outcome=Outcome.FAILED, because=f"it turned itself off: {'; '.join(last.broken)}"
        )
    if variant.settings and not last.applied:
        return replace(result, outcome=Outcome.NO_EFFECT, because=_why_untouched(last))
    rounds = Rounds.of(originals, finished)
    result = replace(
        result,
        per="sample" if rounds.per_sample else "step",
        equivalence=losses.compare([*more, *originals], finished, _strongest(variant, base)),
        metric=_metric(originals, finished),
    )
    resized = resizing(variant)
    if resized and not rounds.counted:
        because = f"{min(resized)} changes the samples per step, and these could not be counted"
        return replace(result, because=because)
    lost = [original for original in originals if original.ending in BROKEN]
    if not rounds.both and lost:
        return replace(result, because=f"the original failed: {_why_broken(lost[-1])}")
    if len(rounds.both) < LEAST_ROUNDS:
        because = f"only {len(rounds.both)} of at least {LEAST_ROUNDS} rounds were measured"
        return replace(result, because=because)
    result = _compared(result, rounds, planned_rounds, is_last)
    if failed is None:
        return result
    return replace(result, because=f"{result.because}; in a later round it failed: {_why_broken(failed)}")


def _compared(result: VariantResult, rounds: Rounds, planned_rounds: int, is_last: bool) -> VariantResult:
    """The verdict by the interval, unless the result is another."""
    speed = speedup.compare(rounds.costs, planned_rounds, is_last)
    changed = result.equivalence is not None and result.equivalence.same is False
    return replace(
        result,
        outcome=Outcome.CHANGED if changed else speed.outcome,
        because=result.equivalence.because if result.equivalence and changed else speed.because,
        speedup=speed.speedup,
        confidence=speed.confidence,
        pays_off_steps=payoff.pays_off(
            [original for original, _ in rounds.both], [variant for _, variant in rounds.both]
        ),
    )


def _is_whole(execution: Execution) -> bool:
    return execution.ending is ExecutionEnd.MEASURED and execution.step_s is not None


def _share_turns(original: Execution, variant: Execution) -> bool:
    """Whether a mean over turns can be told: what disturbs a turn of one leaves it without its pair."""
    if max(len(original.turns_s), len(variant.turns_s)) <= 1:
        return True  # whole executions
    pairs = zip(original.turns_s, variant.turns_s, strict=False)
    return sum(all(map(math.isfinite, pair)) for pair in pairs) >= LEAST_TURNS


def _samples(execution: Execution) -> float | None:
    """Samples that a step holds."""
    if execution.samples_per_s is None or execution.step_s is None:
        return None
    return execution.samples_per_s * execution.step_s or None


def _strongest(variant: Variant, base: Variant) -> str:
    """What the variant does to the result of `base`: the most that one of its tweaks does, or more ranks."""
    if variant.ranks is not None:
        return PATH
    added = (setting.result for setting in variant.settings if setting not in base.settings)
    return max(added, key=list(RESULTS).index, default=BITWISE)


def _why_broken(execution: Execution) -> str:
    if execution.ending is ExecutionEnd.TOO_SHORT:
        return f"it ended after {execution.steps} measured steps"
    if execution.ending is ExecutionEnd.NO_STEPS:
        if execution.ended_early:
            return "it hung, or took far longer to its first step than the script as it is"
        return "it ended without a training step"
    return execution.error or "it failed"


def _why_withdrawn(places: Sequence[Place]) -> str:
    """Which tweaks withdrew, when first, and why."""
    first: dict[tuple[str, str, str | None], int | None] = {}
    for place in places:
        first.setdefault((place.tweak, place.what, place.because), place.step)
    return "; ".join(
        f"--{tweak} withdrew{_after(step)}: {what}: {because}"
        for (tweak, what, because), step in first.items()
    )


def _after(step: int | None) -> str:
    return "" if step is None else f" after {count(step, 'step')}"


def _why_untouched(execution: Execution) -> str:
    reasons = list(dict.fromkeys(f"{place.what}: {place.because}" for place in execution.left_alone))
    return "; ".join(["nothing to change", *reasons])


def _metric(originals: Sequence[Execution], executions: Sequence[Execution]) -> tuple[float, float] | None:
    """The last figure that all of them printed, the original's and the variant's; medians over rounds.

    Some get further in their time: the same place among the figures is the same point of training.
    """
    before, after = (
        [each.printed for each in side if each.printed and each.ending is ExecutionEnd.MEASURED]
        for side in (originals, executions)
    )
    if not before or not after:
        return None
    last = min(map(len, (*before, *after))) - 1
    return median(each[last] for each in before), median(each[last] for each in after)
