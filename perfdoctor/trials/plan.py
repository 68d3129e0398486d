"""How long to measure: rounds, steps and limits of a trial, from what its calibration run showed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.trial import LEAST_ROUNDS, Variant
from perfdoctor.trials.settings import tweak_catalogue
from perfdoctor.trials.settings.flags import VALUE
from perfdoctor.trials.statistics.speedup import foreseen

ROUNDS = 5  # a t-interval over fewer is wide: its quantile is 2.8 with five rounds, 4.3 with three
MOST_ROUNDS = 9  # that come, while the time of a trial lasts, where five do not decide
LEAST_STEPS = 10  # a mean over fewer is one batch more or less
LEAST_S = 1.0  # to measure: less is a few turns of the scheduler
MOST_STEPS = 5_000  # more do not help: rounds differ by more than steps within one
# Of whole executions, five rounds of one variant and the original are expected to take 90 s at most with the
# calibration: what they leave of the budget is for further rounds.
SECONDS_PER_VARIANT = 35.0
CALIBRATION_S = 6.0  # how long the calibration run trains
# For one variant beside the original: within three minutes, also where the last round is slower than those
# before it. Each further variant takes half of it.
BUDGET_S = 170.0
# Of a turn: shorter ones are a few turns of the scheduler; whole epochs may take longer.
TURN_S, LONGEST_TURN_S = 1.0, 10.0
LEAST_TURN_STEPS = 3  # besides the one that a rest has cut
# Fresh starts, each with a layout of memory of its own: half of the first number decide what is worth it.
STARTS, MOST_STARTS = 9, 20
LEAST_TURNS, MOST_TURNS = 2, 12  # of each training between two fresh starts
# How far the ratio of two neighbouring turns scatters, as a rule: which plan tells most hardly depends on it.
NEIGHBOURS = 0.06
SETTLING = 1.2  # times a turn's measured steps, with what comes before them
LEAVING_S = 1.0  # a script takes about this long to end
STRETCH = 3.0  # times the usual budget that may be spent to measure a whole epoch, where it recurs
PATIENCE = 5.0  # an execution that takes so many times as long as expected is ended
SLACK_S = 60.0  # compiling, or starting many workers
FIRST_STEP_S = 900.0  # for a script to get to its first step: datasets are read, models compiled


@dataclass(frozen=True)
class TrialPlan:
    """What every execution of a trial has in common. Steps are those of the original."""

    rounds: int  # that are expected to come
    warm_up_steps: int
    steps: int  # measured after the warm-up
    execution_s: float  # expected of one execution, from its start to its end
    limit_s: float  # after which it is ended
    updates_per_step: float = 1.0  # of the first optimizer: a critic may have several
    period: int | None = None  # steps between epochs, validations or checkpoints, where they come evenly
    batch: float | None = None  # samples in a batch of the original; None: not known
    turns: int = 0  # that hold the steps, of trainings that take turns; 0: executed whole, one by one
    turn_s: float = 0.0  # of the original, as long as its steps take
    spare_updates: int = 0  # of the first optimizer, in which a turn's last step ends
    parks: bool = False  # whether a turn ends with a device that has nothing left to do
    budget_s: float = math.inf  # for all rounds
    most_rounds: int | None = None  # where they take less time than expected; None: no more
    first_step_s: float = FIRST_STEP_S  # within which an execution is at its first step: it hangs otherwise

    @property
    def last_round(self) -> int:
        """The number of the last round that may come, time permitting."""
        return self.rounds if self.most_rounds is None else self.most_rounds

    def stretch(self, variant: Variant) -> tuple[int, int]:
        """A variant's steps of warm-up and its measured ones: they hold the samples of the original's.

        So both are measured over the same stretch of the data, and as many epochs begin in it.
        """
        held = times_held(variant, self.batch)
        least = min(LEAST_STEPS, self.steps)
        return round(self.warm_up_steps / held), max(least, round(self.steps / held))


def times_held(variant: Variant, batch: float | None) -> float:
    """How many times the samples of the original's step one of the variant holds; `batch` as in a Plan."""
    return math.prod((times(value, batch) for times, value in resizing(variant).values()), start=1.0)


def resizing(variant: Variant) -> dict[str, tuple[Callable[[int, float | None], float], int]]:
    """The flags that change how many samples a step holds, and by how many times for which value."""
    return {
        setting.words[0]: (times, setting.values[VALUE])
        for setting in variant.settings
        if (times := tweak_catalogue.declared(setting.tweak).samples) is not None
    }


def make(
    *,
    step_s: float,
    start_s: float,
    warm_up_steps: int,
    longest_steps: int | None,
    period: int | None = None,
    updates_per_step: float = 1.0,
    batch: float | None = None,
    most_held: float = 1.0,
    variants: int,
    spent_s: float,
    rounds: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    begun_s: float = math.inf,
) -> TrialPlan:
    """The plan for so many variants beside the original, `spent_s` of whose time are gone.

    `longest_steps` is how many steps the script takes by itself, None where it was not let; `period` how
    many lie between epochs, which are measured whole where that can be paid for; `most_held` how many times
    the samples of the original's step those of a variant hold: it settles, and is measured, over as many
    steps of its own; `begun_s` is how long it took to settle. Raises PerfdoctorError for too few steps.
    """
    asked_rounds, rounds = rounds, rounds or ROUNDS
    room = math.inf if longest_steps is None else longest_steps / (warm_up_steps + LEAST_STEPS)
    times = max(1.0, min(most_held, room))  # a variant that does not fit in shortens no other
    warm_up_steps, least = math.ceil(warm_up_steps * times), math.ceil(LEAST_STEPS * times)
    most = math.inf if longest_steps is None else longest_steps - warm_up_steps
    if most < LEAST_STEPS:
        measured = f"({warm_up_steps} of them are warm-up, at least {LEAST_STEPS} are measured)"
        raise PerfdoctorError(
            f"the script takes {longest_steps} steps: too short to measure {measured}",
            "let it train longer for the trial: perfdoctor try ... -- train.py --epochs 3",
        )
    if steps is None:
        budget_s = (seconds or SECONDS_PER_VARIANT * (variants + 1) + CALIBRATION_S) - spent_s
        if period is not None and asked_rounds is None:
            least_s = start_s + (warm_up_steps + period) * step_s + LEAVING_S
            rounds = _holding(least_s, rounds, budget_s / (variants + 1))
        each_s = budget_s / (rounds * (variants + 1)) - start_s - LEAVING_S
        affordable = min(MOST_STEPS, most, max(least, LEAST_S / step_s, each_s / step_s - warm_up_steps))
        stretched = min(most, (STRETCH if seconds is None else 1.0) * max(affordable, each_s / step_s))
        steps = int(min(most, _whole(round(affordable), stretched, least, period or 1)))
    else:
        steps = int(min(most, _whole(steps, steps, 1, period or 1)))
    each_s = start_s + (warm_up_steps + steps) * step_s + LEAVING_S
    made = TrialPlan(
        rounds if seconds is None else _coming(rounds, (seconds - spent_s) / (variants + 1) / each_s),
        warm_up_steps,
        steps,
        each_s,
        PATIENCE * (each_s - LEAVING_S) + SLACK_S,
        updates_per_step,
        period,
        batch,
        first_step_s=min(FIRST_STEP_S, PATIENCE * begun_s + SLACK_S),
        most_rounds=asked_rounds or MOST_ROUNDS,
    )
    return made if seconds is not None else _in_usual_time(made, variants, spent_s, asked_rounds)


def _in_usual_time(made: TrialPlan, variants: int, spent_s: float, asked_rounds: int | None) -> TrialPlan:
    """The plan within the time of a trial; what takes longer by itself gets as long as it takes."""
    left_s = usual_s(variants) - spent_s
    if made.rounds * (variants + 1) * made.execution_s <= left_s:
        return replace(made, budget_s=left_s)
    return replace(made, most_rounds=asked_rounds)


def usual_s(variants: int) -> float:
    """Seconds for a trial of so many variants, where none are given."""
    return BUDGET_S * (1.0 + variants) / 2.0


def in_turns(
    whole: TrialPlan,
    *,
    step_s: float,
    start_s: float,
    longest_steps: int | None,
    most_held: float,
    variants: int,
    processes: int,
    cores: float,
    spent_s: float,
    rounds: int | None,
    steps: int | None,
    seconds: float | None,
    spare_updates: int = 0,
    parks: bool = False,
) -> TrialPlan | None:
    """The plan for trainings that take turns, or None where turns are too few, too short or hold too little.

    Arguments as those of `make`, whose plan is `whole`. A turn holds whole periods where they are short;
    where that leaves too few turns, all of them together hold one. `processes` of one training, its ranks,
    start at once with those of the others, on `cores`.
    """
    sides = variants + 1
    warm_up_steps = whole.warm_up_steps
    given_s = (seconds or usual_s(variants)) - spent_s
    crowding = max(1.0, sides * processes / max(processes, cores))  # alone, it had a core for each, or all
    start_s = (start_s + warm_up_steps * step_s + LEAVING_S) * crowding
    room = _Room(
        given_s=given_s,
        start_s=start_s,
        step_s=sides * step_s * SETTLING,
        longest_steps=None if longest_steps is None else longest_steps - warm_up_steps,
        cut=1 + bool(spare_updates) + parks,
        asked_steps=None if steps is None else whole.steps,
    )
    turn_steps, turns = room.turns(whole.period or 1, step_s, most_held)
    if not turns:
        return None
    round_s = start_s + turns * turn_steps * room.step_s
    return replace(
        whole,
        rounds=min(rounds or MOST_STARTS, max(LEAST_ROUNDS, int(given_s / round_s))),
        most_rounds=rounds or MOST_STARTS,
        steps=turns * turn_steps,
        execution_s=round_s,
        limit_s=PATIENCE * sides * round_s + SLACK_S,
        turns=turns,
        turn_s=turn_steps * step_s,
        spare_updates=spare_updates,
        parks=parks,
        budget_s=given_s,
        first_step_s=min(FIRST_STEP_S, sides * whole.first_step_s),
    )


@dataclass(frozen=True)
class _Room:
    """What its time, the script and who asked for it leave for the turns of a trial."""

    given_s: float
    start_s: float  # of all sides, until they have settled, and for them to leave
    step_s: float  # of all sides, with what settles before it
    longest_steps: int | None  # behind the warm-up; None: the script was not let to its end
    cut: int  # steps at the borders of a turn
    asked_steps: int | None

    def turns(self, period: int, step_s: float, most_held: float) -> tuple[int, int]:
        """(steps of a turn, turns): each holds the period where it can, else all together do; or 0 turns."""
        turn_steps = _turn_steps(step_s, most_held, period)
        turns = self._fitting(turn_steps, LEAST_TURNS)
        if turns or period == 1:
            return turn_steps, turns
        turn_steps = _turn_steps(step_s, most_held, 1)
        return turn_steps, self._fitting(turn_steps, max(LEAST_TURNS, math.ceil(period / turn_steps)))

    def _fitting(self, turn_steps: int, least: int) -> int:
        """As many turns as fit, 0 where fewer than the least do."""
        turns = _most_telling(self.given_s, self.start_s, turn_steps * self.step_s, least)
        if self.longest_steps is not None:
            turns = min(turns, int(self.longest_steps / (SETTLING * turn_steps + self.cut)))
        if self.asked_steps is not None and self.asked_steps > turns * turn_steps:
            return 0  # they are measured in one go, as asked
        if self.asked_steps is not None:
            turns = min(turns, max(1, self.asked_steps // turn_steps))
        return turns if turns >= least else 0


def _most_telling(given_s: float, start_s: float, cycle_s: float, least: int) -> int:
    """How many turns of all, `cycle_s` each, between two starts narrow the interval most.

    More starts tell more than more turns, but each has the least turns of its own. 0: no plan has.
    """
    plans = [
        (min(MOST_TURNS, int((given_s / starts - start_s) / cycle_s)), starts)
        for starts in range(LEAST_ROUNDS, STARTS + 1)
    ]
    wide = {foreseen(NEIGHBOURS**2, turns, starts): turns for turns, starts in plans if turns >= least}
    return wide[min(wide)] if wide else 0


def _turn_steps(step_s: float, most_held: float, period: int) -> int:
    """As many steps as take a turn's time, in whole periods where those are short."""
    steps = math.ceil(max(TURN_S / step_s, LEAST_TURN_STEPS * max(1.0, most_held)))
    return math.ceil(steps / period) * period if period * step_s <= LONGEST_TURN_S else steps


def _coming(rounds: int, held: float) -> int:
    """Of the rounds those that come where time holds so many: three at least."""
    return min(rounds, max(LEAST_ROUNDS, round(held)))


def _holding(least_s: float, rounds: int, time_s: float) -> int:
    """Fewer rounds where only they leave each execution `least_s` of the time; all of them where none do."""
    return max((each for each in range(LEAST_ROUNDS, rounds + 1) if time_s / each >= least_s), default=rounds)


def _whole(affordable: int, stretched: float, least: int, period: int) -> int:
    """As many steps as can be paid for: in whole periods, unless those that hold `least` cost too much."""
    steps = max(math.ceil(least / period), affordable // period) * period
    return steps if steps <= stretched else affordable
