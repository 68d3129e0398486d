from __future__ import annotations

import pytest

from perfdoctor.facts.ranks.rank_work import (
    InputSize,
    input_size,
    is_alone,
    line_seconds,
    slower_lines,
    times_larger,
)
from perfdoctor.model.measured import Location, Phase
from perfdoctor.runs.types import RankRecords

MODEL, LOSS = Location("model.py", 3, "forward"), Location("train.py", 9, "main")


def rank(*elements):
    events = tuple({"event": "input_size", "elements": each} for each in elements)
    return RankRecords(0, None, None, events)


def test_the_mean_of_what_a_model_is_called_with_has_its_standard_error():
    assert input_size(rank(100, 200, 100, 200)) == InputSize(150.0, pytest.approx(57.735 / 2, rel=1e-3))


def test_few_calls_tell_nothing():
    assert input_size(rank(100, 200, 100)) is None


def test_inputs_are_larger_by_more_than_they_scatter():
    small, large = InputSize(100.0, 10.0), InputSize(300.0, 20.0)
    assert times_larger(large, [small, small, None]) == pytest.approx(3.0)
    assert times_larger(InputSize(130.0, 20.0), [small]) is None
    assert times_larger(InputSize(105.0, 0.0), [InputSize(100.0, 0.0)]) is None
    assert times_larger(small, [large]) is None


def test_of_unknown_inputs_none_is_larger():
    assert times_larger(None, [InputSize(100.0, 0.0)]) is None
    assert times_larger(InputSize(100.0, 0.0), [None]) is None


def test_the_lines_at_which_a_rank_takes_longer_come_longest_first():
    own = {(Phase.FORWARD, MODEL): 0.010, (Phase.FORWARD, LOSS): 0.016, (Phase.BACKWARD, LOSS): 0.5}
    other = {(Phase.FORWARD, MODEL): 0.006}
    assert slower_lines(Phase.FORWARD, 0.016, own, [other]) == (LOSS, MODEL)


def test_a_line_that_explains_little_of_it_is_not_named():
    own = {(Phase.FORWARD, MODEL): 0.010, (Phase.FORWARD, LOSS): 0.003}
    assert slower_lines(Phase.FORWARD, 0.010, own, [{(Phase.FORWARD, LOSS): 0.002}]) == (MODEL,)


def test_no_line_is_named_where_the_stacks_of_a_rank_are_not_known():
    assert slower_lines(Phase.FORWARD, 0.010, {(Phase.FORWARD, MODEL): 0.010}, [{}]) == ()
    assert slower_lines(Phase.FORWARD, 0.010, {}, [{(Phase.FORWARD, MODEL): 0.010}]) == ()


def test_without_samples_no_line_has_seconds():
    assert line_seconds(rank(), None) == {}


def test_a_rank_is_alone_at_a_line_that_takes_the_usual_rank_next_to_nothing():
    own, busy = {(Phase.FORWARD, MODEL): 0.030}, {(Phase.FORWARD, MODEL): 0.020}
    assert is_alone(Phase.FORWARD, MODEL, own, [{(Phase.BACKWARD, MODEL): 0.030}, {}, busy])
    assert not is_alone(Phase.FORWARD, MODEL, own, [busy])
