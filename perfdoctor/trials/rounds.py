"""Originals and variants, alive at once or one after the other, round by round until each is decided."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from statistics import fmean

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.concluded import Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.note import Note
from perfdoctor.model.trial import LEAST_ROUNDS, ORIGINAL, Execution, ExecutionEnd, Variant, VariantResult
from perfdoctor.trials import lockstep, measure, settling
from perfdoctor.trials.execution import Executor
from perfdoctor.trials.plan import CALIBRATION_S, LEAST_STEPS, SETTLING, TrialPlan, times_held
from perfdoctor.trials.request import ProgressDisplay
from perfdoctor.trials.statistics import speedup
from perfdoctor.trials.statistics.verdict import BROKEN, Rounds, verdict
from perfdoctor.tweaks import EPOCH_BORDERS, SECOND_EPOCH, VALIDATION
from perfdoctor.watch import signals

# Epochs that a trial takes which has to see whole ones, in turns of both after fresh starts; the first
# validation of each start only proves that its passes may be changed.
EPOCHS_NEEDED = {SECOND_EPOCH: 16, EPOCH_BORDERS: 16, VALIDATION: 24}
CRASHED = frozenset({ExecutionEnd.FAILED, ExecutionEnd.OUT_OF_MEMORY})
OVER = 0.05  # of the time given, that a last round may take beyond it
OVER_FOR_VERDICT = 0.5  # the same, while there are too few rounds for a verdict


@dataclass
class Bench:
    """Measures variants of one command against the original; keeps all that was executed."""

    executor: Executor
    progress: ProgressDisplay
    plan: TrialPlan
    calibration: Execution  # the execution that the plan was made from
    whole: TrialPlan | None = None  # of whole executions, where those of `plan` take turns
    predict: Callable[[Variant], Gain | None] = lambda variant: None
    originals: list[Execution] = field(default_factory=list)
    ended_by: int | None = None  # the signal that interrupted it
    rounds: int = 0  # of all comparisons together
    begun: int = 0  # the same, with those that came to nothing
    stopped_early: bool = False
    trouble: list[Note] = field(default_factory=list)  # what ended the trial, other than the user
    notes: list[Note] = field(default_factory=list)  # how it was measured
    epoch: float | None = None  # steps of one: see measure.epoch
    longest_steps: int | None = None  # that the script takes by itself; None: it was not let
    clock: Callable[[], float] = time.monotonic

    def compare(
        self, variants: Sequence[Variant], base: Variant = ORIGINAL, budget_s: float | None = None
    ) -> list[VariantResult]:
        """Measure each variant against executions of `base` in the same rounds: of the original, usually.

        It takes `budget_s` where that is given, else as long as was planned.
        """
        if budget_s is not None:
            self.plan = replace(self.plan, budget_s=budget_s)
            self.whole = self.whole and replace(self.whole, budget_s=budget_s)
        originals: list[Execution] = []
        decided: dict[str, VariantResult] = {}  # in turns, before trainings were told apart
        executions: dict[str, list[Execution]] = {variant.name: [] for variant in variants}
        alive = [variant for variant in variants if self.out_of_reach(variant) is None]
        began = first = self.rounds
        began_s, took_s = self.clock(), [0.0]  # each round; at first nothing is known
        while alive and self.rounds - first < self.plan.last_round and not self._ended:
            turns = [(base, originals), *((each, executions[each.name]) for each in alive)]
            round_s = self.clock()
            next_s = max(took_s[-1], fmean(took_s[1:] or took_s))
            if self._has_to_stop(round_s - began_s + next_s, self.rounds - first):
                break
            self.begun += 1
            try:
                if self.plan.turns:
                    self._take_turns(turns, self.rounds - first)
                else:
                    self._round(turns, self.rounds - first)
            except KeyboardInterrupt as stop:  # between two executions
                self.ended_by = signals.number_of(stop)
            except lockstep.Apart as why:
                over = [each for each in variants if each not in alive]
                decided = {each.name: self._judged(each, executions, originals, base) for each in over}
                self.originals += originals if decided and not base.settings else []
                self._part(str(why))
                for _, before in turns[1:]:
                    before.clear()
                originals, first, took_s = [], self.rounds, [0.0]
                continue
            self.rounds += 1
            took_s.append(self.clock() - round_s)
            if self.rounds - began == 1 and self._settles_later(turns):
                first = self.rounds
                continue
            alive = [
                variant for variant in alive if self._goes_on(variant, originals, executions[variant.name])
            ]
        all_told = not alive and first < self.rounds < first + self.plan.last_round
        self.stopped_early |= all_told and not self._ended
        if not base.settings:
            self.originals += originals
        return [
            decided.get(each.name) or self._judged(each, executions, originals, base, is_last=each in alive)
            for each in variants
        ]

    def _judged(
        self,
        variant: Variant,
        executions: Mapping[str, Sequence[Execution]],
        originals: Sequence[Execution],
        base: Variant,
        is_last: bool = False,
    ) -> VariantResult:
        """The verdict on a variant by what was measured so far.

        `is_last`: it was not decided when the trial ended, by the clock, say, so that this is its last look.
        """
        mine, more = executions[variant.name], [self.calibration] if base == ORIGINAL else []
        predicted, planned = self.predict(variant), self.plan.last_round
        found = verdict(variant, mine, originals, more, planned, predicted, base, is_last)
        return replace(found, because=self.out_of_reach(variant) or found.because)

    def out_of_reach(self, variant: Variant) -> str | None:
        """Why what a variant changes cannot be measured in the time there is, or None where it can."""
        pays, step_s = settling.pays(variant), self.calibration.step_s
        in_one_go = self.plan.steps // max(1, self.plan.turns)
        reach: dict[str, tuple[int, float | None, str]] = {
            SECOND_EPOCH: (
                self.plan.warm_up_steps,
                self.epoch,
                "pays from the second epoch on, and the first takes",
            ),
            EPOCH_BORDERS: (in_one_go, self.epoch, "acts where epochs begin, and one takes"),
            VALIDATION: (
                in_one_go,
                self.plan.period if settling.validates(self.calibration) else self.epoch,
                "acts where the script validates, once in",
            ),
        }
        for when, (steps, needed, why) in reach.items():
            if when in pays and needed is not None and step_s is not None and steps < needed:
                return f"--{pays[when]} {why} {_takes(needed, step_s, EPOCHS_NEEDED[when])}"
        return None

    @property
    def interrupted(self) -> bool:
        """Whether somebody ended the trial."""
        return self.ended_by is not None

    @property
    def _ended(self) -> bool:
        return self.interrupted or bool(self.trouble)

    def _has_to_stop(self, then_s: float, rounds: int) -> bool:
        """Whether another round would go beyond the time there is, where `then_s` will be spent after it."""
        if rounds >= LEAST_ROUNDS:
            return then_s > self.plan.budget_s * (1.0 + OVER)
        # Fewer rounds tell nothing at all, and all time would be lost; of turns, a round may be a long one.
        return self.plan.turns > 0 and rounds > 0 and then_s > self.plan.budget_s * (1.0 + OVER_FOR_VERDICT)

    def _settles_later(self, sides: Sequence[tuple[Variant, list[Execution]]]) -> bool:
        """Whether a variant still compiled in what was measured of it: then all is measured again, later on.

        The calibration run of the original cannot tell how long a variant compiles.
        """
        more = 0
        for variant, executions in sides:
            last = executions[-1] if executions and settling.compiles(variant) else None
            if last is not None and last.slow_steps > last.warm_up_steps:
                slow = math.ceil(last.slow_steps * times_held(variant, self.plan.batch))
                more = max(more, slow - measure.LEAST_WARM_UP)  # its workers fill their queues meanwhile
        last_step = self.plan.warm_up_steps + more + SETTLING * self.plan.steps
        if more <= 0 or (self.longest_steps is not None and last_step > self.longest_steps):
            return False
        self.plan = _later(self.plan, more)
        self.whole = self.whole and _later(self.whole, more)
        for _, executions in sides:
            executions.clear()
        return True

    def _take_turns(self, sides: Sequence[tuple[Variant, list[Execution]]], number: int) -> None:
        """One round of all at once. Raises lockstep.Apart where they do not get on with each other."""
        names = [(variant, self._name(index, variant)) for index, (variant, _) in enumerate(sides)]
        together = " and ".join(variant.name for variant, _ in sides)

        def tell(turn: int) -> None:
            rounds = max(self.plan.rounds, number + 1)
            done, of = number * self.plan.turns + turn, rounds * self.plan.turns
            left_s = self.plan.execution_s * (rounds - number - turn / self.plan.turns)
            self.progress.begin(f"{together} in turns", done, of, left_s)

        if not number:
            self.progress.begin(f"{together} start", 0, self.plan.rounds * self.plan.turns, None)
        try:
            executions, stop = lockstep.execute(self.executor, names, self.rounds, self.plan, tell)
        except PerfdoctorError as error:
            self._end_for(error)
            return
        if stop is not None:
            self.ended_by = signals.number_of(stop)
        endings = {execution.ending for execution in executions}
        at_fault = endings & CRASHED or endings & {ExecutionEnd.NO_STEPS}  # others may be cut before a step
        for (variant, before), execution in zip(sides, executions, strict=True):
            if execution.ending in at_fault:
                alone = self._alone(variant, execution)
                if alone is None:
                    return
                before.append(alone)
        if at_fault:
            return  # what the others did meanwhile is cut short
        too_short = [
            variant
            for (variant, _), execution in zip(sides, executions, strict=True)
            if execution.ending is ExecutionEnd.TOO_SHORT
        ]
        if too_short and all(before for _, before in sides):
            return  # it was not before: what disturbed its turns spoils this round only
        if too_short:
            raise lockstep.Apart(f"{too_short[0].name} is too short for turns")
        for (_, before), execution in zip(sides, executions, strict=True):
            before.append(execution)

    def _alone(self, variant: Variant, execution: Execution) -> Execution | None:
        """What failed beside others, executed by itself. Raises lockstep.Apart where it works then.

        None where the trial ends meanwhile.
        """
        assert self.whole is not None
        name = self._name(0, variant) + "-alone"
        try:
            alone = self.executor.execute(variant, name, self.rounds, self.whole)
        except PerfdoctorError as error:
            self._end_for(error)
            return None
        if alone.ending is ExecutionEnd.INTERRUPTED:
            self.ended_by = alone.ended_by
            return None
        if variant.settings and alone.ending in BROKEN:
            return alone
        raise lockstep.Apart(f"{variant.name} fails beside another: {execution.error or 'no training step'}")

    def _part(self, why: str) -> None:
        """From now on, whole executions one after the other."""
        assert self.whole is not None
        self.plan, self.whole = self.whole, None
        self.notes.append(Note("whole-executions", {"because": why}))
        self.progress.say(self.notes[-1])

    def _end_for(self, error: PerfdoctorError) -> None:
        """No room for more: what was measured stays."""
        self.trouble.append(Note("trial-ended", {"error": str(error), "hint": error.hint}))
        self.progress.say(self.trouble[-1])

    def _round(self, turns: Sequence[tuple[Variant, list[Execution]]], number: int) -> None:
        """Each once; every other round in the opposite order, so that a drift of the machine cancels."""
        of = max(self.plan.rounds, number + 1) * len(turns)
        for place, (variant, executions) in enumerate(turns if number % 2 == 0 else turns[::-1]):
            done = number * len(turns) + place
            self.progress.begin(variant.name, done, of, (of - done) * self.plan.execution_s)
            name = self._name(turns.index((variant, executions)), variant)
            try:
                execution = self.executor.execute(variant, name, self.rounds, self.plan)
            except PerfdoctorError as error:  # the disk is full: what was measured stays
                self._end_for(error)
                return
            executions.append(self._fitted(variant, execution))
            if execution.ending is ExecutionEnd.INTERRUPTED:
                self.ended_by = execution.ended_by
                return

    def _name(self, index: int, variant: Variant) -> str:
        """The folder of an execution: by round, place among the variants and what is tried."""
        return f"{self.begun}-{f'{index}-{_slug(variant)}' if index else 'base'}"

    def _fitted(self, variant: Variant, execution: Execution) -> Execution:
        """A script that ends before its planned steps is measured over those that it takes, from then on."""
        if execution.ending is not ExecutionEnd.TOO_SHORT or execution.steps < LEAST_STEPS:
            return execution
        if execution.ended_early:  # by its time limit: the variant is that slow, and no other is cut for it
            return replace(execution, ending=ExecutionEnd.MEASURED)
        steps = int(execution.steps * times_held(variant, self.plan.batch))  # in steps of the original
        self.plan = replace(self.plan, steps=min(self.plan.steps, max(LEAST_STEPS, steps)))
        return replace(execution, ending=ExecutionEnd.MEASURED)

    def _goes_on(
        self, variant: Variant, originals: Sequence[Execution], executions: Sequence[Execution]
    ) -> bool:
        """Whether another round can tell more about a variant."""
        last = executions[-1] if executions else None
        if last is None:
            return bool(self.plan.turns)  # another one failed in this round
        if last.ending in BROKEN or last.broken or last.withdrawn:
            return False
        if variant.settings and not last.applied:
            return False
        return not speedup.enough(Rounds.of(originals, executions).costs, self.plan.last_round)


def _takes(steps: float, step_s: float, times: int) -> str:
    """How long so many steps are, and what to type to see them so many times."""
    if math.isinf(steps):
        return f"more steps than train in {CALIBRATION_S:.0f} s; how many, its dataset does not tell"
    seconds = math.ceil(times * steps * step_s)
    return f"{steps:,} steps, about {steps * step_s:.0f} s: perfdoctor try --seconds {seconds}"


def _later(plan: TrialPlan, steps: int) -> TrialPlan:
    """The plan with so many more steps of warm-up."""
    return replace(plan, warm_up_steps=plan.warm_up_steps + steps)


def _slug(variant: Variant) -> str:
    """A file name for a variant that is not the original, even where it changes nothing."""
    changes = variant.name if variant.settings or variant.ranks is not None else "unchanged"
    return re.sub(r"[^A-Za-z0-9]+", "-", changes).strip("-")[:60]
