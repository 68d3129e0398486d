"""How long to measure: rounds, steps and limits of a trial, from what its first execution showed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfdoctor.errors import PerfdoctorError

ROUNDS = 5  # a t-interval over fewer is wide: its quantile is 2.8 with five rounds, 4.3 with three
LEAST_ROUNDS = 3
LEAST_STEPS = 10  # a mean over fewer is one batch more or less
LEAST_S = 1.0  # to measure: less is a few turns of the scheduler
MOST_STEPS = 5_000  # more do not help: rounds differ by more than steps within one
SECONDS_PER_VARIANT = 35.0  # one variant and its originals, by default: with the first look, 90 s at most
LOOK_S = 6.0  # how long the first execution trains
LEAVING_S = 1.0  # a script takes about this long to end
STRETCH = 3.0  # times the budget that may be spent to measure a whole epoch, where it recurs
PATIENCE = 5.0  # an execution that takes so many times as long as expected is ended
SLACK_S = 60.0  # compiling, or starting many workers


@dataclass(frozen=True)
class Plan:
    """What every execution of a trial has in common."""

    rounds: int
    warm_up_steps: int
    steps: int  # measured after the warm-up
    execution_s: float  # expected of one execution, from its start to its end
    limit_s: float  # after which it is ended
    updates_per_step: float = 1.0  # of the first optimizer: a critic may have several
    period: int | None = None  # steps between epochs, validations or checkpoints, where they come evenly


def make(
    *,
    step_s: float,
    start_s: float,
    warm_up_steps: int,
    longest_steps: int | None,
    period: int | None = None,
    updates_per_step: float = 1.0,
    variants: int,
    spent_s: float,
    rounds: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
) -> Plan:
    """The plan for so many variants beside the original, `spent_s` of whose time are gone.

    `longest_steps` is how many steps the script takes by itself, None where it was not let; `period` how
    many lie between epochs, which are measured whole where that can be paid for. Raises PerfdoctorError
    where the script has too few steps to measure.
    """
    rounds = rounds or ROUNDS
    most = math.inf if longest_steps is None else longest_steps - warm_up_steps
    if most < LEAST_STEPS:
        raise PerfdoctorError(
            f"the script takes {longest_steps} steps: too short to measure "
            f"({warm_up_steps} of them are warm-up, at least {LEAST_STEPS} are measured)",
            "let it train longer for the trial, as with: perfdoctor try ... -- train.py --epochs 3",
        )
    if steps is None:
        budget_s = (seconds or SECONDS_PER_VARIANT * (variants + 1) + LOOK_S) - spent_s
        each_s = budget_s / (rounds * (variants + 1)) - start_s - LEAVING_S
        affordable = min(MOST_STEPS, max(LEAST_STEPS, LEAST_S / step_s, each_s / step_s - warm_up_steps))
        whole = math.ceil(LEAST_STEPS / period) * period if period else 0
        stretched = STRETCH * max(affordable, each_s / step_s)
        steps = round(whole if affordable < whole <= stretched else affordable)
    steps = int(min(steps, most))
    training_s = (warm_up_steps + steps) * step_s
    return Plan(
        rounds,
        warm_up_steps,
        steps,
        start_s + training_s + LEAVING_S,
        PATIENCE * (start_s + training_s) + SLACK_S,
        updates_per_step,
        period,
    )
