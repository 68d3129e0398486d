"""What a trial can tell in its time, and how long it takes at least: said before its first turn."""

from __future__ import annotations

import numpy as np

from perfdoctor.facts.steps import boundaries
from perfdoctor.model.note import Note
from perfdoctor.model.trial import LEAST_ROUNDS
from perfdoctor.runs.types import RunRecords
from perfdoctor.trials.plan import TrialPlan
from perfdoctor.trials.statistics import speedup

USELESS = 0.5  # a range that reaches so far to either side tells next to nothing
OVER = 0.1  # of the time given, beyond which it counts as not kept
STRETCHES, LEAST_STRETCHES = 6, 3  # that a calibration run is cut into, to see how much turns scatter


def pair_variance(records: RunRecords, first: int, turn_steps: int) -> float | None:
    """Variance of the log ratio of two neighbouring stretches of `turn_steps` steps, from step `first` on.

    In a calibration run that is too short for some of them, of shorter ones; None where it has no room for
    three.
    """
    found = (boundaries.find(rank.steps) for _, rank in sorted(records.ranks.items()))
    steps = next((steps for steps in found if steps is not None), None)
    if steps is None:
        return None
    seconds = steps.seconds[first:]
    length = max(1, min(turn_steps, len(seconds) // STRETCHES))
    count = len(seconds) // length
    if count < LEAST_STRETCHES:
        return None
    means = seconds[: count * length].reshape(count, length).mean(axis=1)
    return float(np.mean(np.diff(np.log(np.maximum(means, 1e-9))) ** 2))


def promised(plan: TrialPlan, pair_variance: float | None, spent_s: float) -> Note | None:
    """How long it takes, and how small a change turns can tell from none; None where neither is known.

    `pair_variance` is that of the log ratio of neighbouring turns, in the calibration run, None where that
    was too short to say; `spent_s` is what the trial took before its first turn. How far whole executions
    scatter is not known from one of them.
    """
    if not plan.turns:
        of_round_s = 2 * plan.execution_s
        rounds = max(plan.rounds, int(min(plan.last_round, plan.budget_s / of_round_s)))
        return Note("takes-whole", {"seconds": round(spent_s + rounds * of_round_s), "rounds": rounds})
    if pair_variance is None:
        return None
    seconds = round(spent_s + plan.rounds * plan.execution_s)
    change = speedup.foreseen(pair_variance, plan.turns, plan.rounds)
    if change <= USELESS:
        return Note("can-tell", {"seconds": seconds, "change": change})
    rounds = plan.rounds
    while speedup.foreseen(pair_variance, plan.turns, rounds) > USELESS:
        rounds += 1
    needed = round(spent_s + rounds * plan.execution_s)
    return Note("cannot-tell", {"seconds": seconds, "change": change, "needed": needed})


def overdrawn(plan: TrialPlan, sides: int, spent_s: float, seconds: float) -> Note | None:
    """That the fewest rounds of a plan do not fit into the time given; None where they do."""
    of_round_s = plan.execution_s * (1 if plan.turns else sides)
    least_s = spent_s + LEAST_ROUNDS * of_round_s
    if least_s <= seconds * (1.0 + OVER):
        return None
    return Note("over-budget", {"seconds": seconds, "rounds": LEAST_ROUNDS, "needed": round(least_s)})
