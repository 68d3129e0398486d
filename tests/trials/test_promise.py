"""What is said of a trial before its first turn holds in trials that are played."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from perfdoctor.model.note import Note
from perfdoctor.model.trial import Outcome
from perfdoctor.render.notes import worded
from perfdoctor.trials import trial
from perfdoctor.trials.auto import Candidate, Walk
from perfdoctor.trials.plan import TrialPlan
from perfdoctor.trials.promise import overdrawn, promised
from perfdoctor.trials.request import Request
from perfdoctor.trials.statistics import speedup
from tests.support.records import records, rows, update
from tests.support.trial_runs import WORKERS

PLAN = TrialPlan(
    rounds=9, warm_up_steps=5, steps=500, execution_s=18.0, limit_s=60.0, turns=5, turn_s=1.0, budget_s=170.0
)
PAIRS_OFF = 0.06  # standard deviation of the log ratio of neighbouring turns


def test_the_smallest_change_that_can_be_told_is_said_with_the_time():
    note = promised(PLAN, PAIRS_OFF**2, spent_s=14.0)
    assert note is not None
    assert worded(note) == "takes about 2:56 min and can detect changes of 3% or more"


@pytest.mark.parametrize(("times", "outcome"), [(2.0, Outcome.FASTER), (0.0, Outcome.NO_DIFFERENCE)])
def test_twice_that_change_is_told_in_most_trials_and_none_in_hardly_any(times, outcome):
    change = speedup.foreseen(PAIRS_OFF**2, PLAN.turns, PLAN.rounds)
    draw, told = np.random.default_rng(1), []
    for _ in range(200):
        starts = math.log1p(times * change) + draw.normal(0, speedup.STARTS, PLAN.rounds)
        ratios = np.exp(starts[:, None] + draw.normal(0, PAIRS_OFF, (PLAN.rounds, PLAN.turns)))
        rounds = [[(ratio, 1.0) for ratio in start] for start in ratios]
        told.append(speedup.compare(rounds, PLAN.rounds).outcome is outcome)
    assert np.mean(told) > 0.9


def test_where_hardly_anything_can_be_told_the_time_that_could_is_named():
    short = replace(PLAN, rounds=3, turns=2)
    note = promised(short, 1.0, spent_s=14.0)
    assert note is not None
    assert note.slug == "cannot-tell"
    rounds = (note.values["needed"] - 14) / short.execution_s
    assert speedup.foreseen(1.0, 2, round(rounds)) <= 0.5 < speedup.foreseen(1.0, 2, round(rounds) - 1)


def test_of_whole_executions_the_time_is_told_and_too_short_a_look_promises_nothing():
    note = promised(replace(PLAN, turns=0, rounds=5), 0.01, 14.0)
    assert note is not None
    assert worded(note) == "takes at most about 3:14 min, in 5 rounds of whole executions"
    assert promised(PLAN, None, 14.0) is None


def test_of_whole_executions_that_leave_time_for_further_rounds_these_are_told():
    note = promised(replace(PLAN, turns=0, rounds=5, most_rounds=9, budget_s=300.0), None, 14.0)
    assert note is not None
    assert worded(note) == "takes at most about 5:02 min, in 8 rounds of whole executions"


def test_a_time_that_the_fewest_rounds_do_not_fit_into_is_said():
    whole = replace(PLAN, turns=0)  # 14 s, then three rounds of two executions of 18 s
    assert overdrawn(whole, 2, 14.0, seconds=112.0) is None
    note = overdrawn(whole, 2, 14.0, seconds=60.0)
    assert note == Note("over-budget", {"seconds": 60.0, "rounds": 3, "needed": 122})
    assert overdrawn(PLAN, 2, 14.0, seconds=62.0) is None  # both are alive in a round of turns


def said_of_a_walk(candidates: int, comparisons: int, seconds: float | None) -> list[str]:
    """What is said before a walk through so many candidates, whose rounds of whole executions take 36 s."""
    heard: list[Note] = []
    walk = Walk([Candidate(WORKERS.settings)] * candidates, comparisons=comparisons)
    trial._promise(
        Request(("train.py",), (), auto=True, seconds=seconds),
        SimpleNamespace(say=heard.append),  # type: ignore[arg-type]
        walk,
        replace(PLAN, turns=0),
        records(rows([update()] * 300)),
        14.0,
    )
    return [note.slug for note in heard]


def test_no_time_is_promised_of_a_walk_through_several_candidates():
    assert said_of_a_walk(candidates=1, comparisons=1, seconds=None) == ["takes-whole"]
    assert said_of_a_walk(candidates=5, comparisons=1, seconds=None) == []


def test_a_walk_has_time_enough_where_one_comparison_fits_into_it():
    assert said_of_a_walk(candidates=5, comparisons=11, seconds=600.0) == []
    assert said_of_a_walk(candidates=5, comparisons=11, seconds=60.0) == ["over-budget"]
