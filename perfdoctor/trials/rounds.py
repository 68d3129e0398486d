"""Originals and variants in turns, round by round, until each variant is decided."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.concluded import Gain
from perfdoctor.model.note import Note
from perfdoctor.model.trial import ORIGINAL, Execution, ExecutionEnd, Variant, VariantResult
from perfdoctor.trials.execution import Executor
from perfdoctor.trials.plan import LEAST_STEPS, TrialPlan, times_held
from perfdoctor.trials.request import ProgressDisplay
from perfdoctor.trials.statistics import speedup
from perfdoctor.trials.statistics.verdict import BROKEN, Rounds, verdict
from perfdoctor.watch import signals


@dataclass
class Bench:
    """Measures variants of one command against the original; keeps all that was executed."""

    executor: Executor
    progress: ProgressDisplay
    plan: TrialPlan
    calibration: Execution  # the execution that the plan was made from
    predict: Callable[[Variant], Gain | None] = lambda variant: None
    originals: list[Execution] = field(default_factory=list)
    ended_by: int | None = None  # the signal that interrupted it
    rounds: int = 0  # of all comparisons together
    stopped_early: bool = False
    trouble: list[Note] = field(default_factory=list)  # what ended the trial, other than the user

    def compare(self, variants: Sequence[Variant], base: Variant = ORIGINAL) -> list[VariantResult]:
        """Measure each variant against executions of `base` in the same rounds: of the original, usually."""
        originals: list[Execution] = []
        executions: dict[str, list[Execution]] = {variant.name: [] for variant in variants}
        alive, first = list(variants), self.rounds
        while alive and self.rounds - first < self.plan.rounds and not self._ended:
            turns = [(base, originals), *((each, executions[each.name]) for each in alive)]
            try:
                self._round(turns, self.rounds - first)
            except KeyboardInterrupt as stop:  # between two executions
                self.ended_by = signals.number_of(stop)
            self.rounds += 1
            alive = [
                variant for variant in alive if self._goes_on(variant, originals, executions[variant.name])
            ]
        self.stopped_early |= self.rounds - first < self.plan.rounds and not self._ended
        if not base.settings:
            self.originals += originals
        return [
            verdict(
                variant,
                executions[variant.name],
                originals,
                [self.calibration] if base == ORIGINAL else [],
                self.plan.rounds,
                self.predict(variant),
            )
            for variant in variants
        ]

    @property
    def interrupted(self) -> bool:
        """Whether somebody ended the trial."""
        return self.ended_by is not None

    @property
    def _ended(self) -> bool:
        return self.interrupted or bool(self.trouble)

    def _round(self, turns: Sequence[tuple[Variant, list[Execution]]], number: int) -> None:
        """Each once; every other round in the opposite order, so that a drift of the machine cancels."""
        of = self.plan.rounds * len(turns)
        for place, (variant, executions) in enumerate(turns if number % 2 == 0 else turns[::-1]):
            done = number * len(turns) + place
            self.progress.begin(variant.name, done, of, (of - done) * self.plan.execution_s)
            name = self._name(turns.index((variant, executions)), variant)
            try:
                execution = self.executor.execute(variant, name, self.rounds, self.plan)
            except PerfdoctorError as error:  # the disk is full: what was measured stays
                self.trouble.append(Note("trial-ended", {"error": str(error), "hint": error.hint}))
                self.progress.say(self.trouble[-1])
                return
            executions.append(self._fitted(variant, execution))
            if execution.ending is ExecutionEnd.INTERRUPTED:
                self.ended_by = execution.ended_by
                return

    def _name(self, index: int, variant: Variant) -> str:
        """The folder of an execution: by round, place among the variants and what is tried."""
        return f"{self.rounds + 1}-{f'{index}-{_slug(variant)}' if index else 'base'}"

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
        if last is None or last.ending in BROKEN or last.broken or (variant.settings and not last.applied):
            return False
        return not speedup.enough(Rounds.of(originals, executions).costs, self.plan.rounds)


def _slug(variant: Variant) -> str:
    """A file name for a variant that is not the original, even where it changes nothing."""
    changes = variant.name if variant.settings or variant.ranks is not None else "unchanged"
    return re.sub(r"[^A-Za-z0-9]+", "-", changes).strip("-")[:60]
