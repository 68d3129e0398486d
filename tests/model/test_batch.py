from __future__ import annotations

import pytest

from perfdoctor.model.batch import Stage, waits, waits_beside
from tests.support.facts import line, step
from tests.support.load_facts import batch, cost

BATCH = batch(
    cost(Stage.READING, 0.3, line(0.2, 5), line(0.1, 6), kind="file", library="numpy"),
    cost(Stage.READING, 0.4, line(0.4, 5), kind="table", library="pyarrow"),
    cost(Stage.COLLATING, 0.3),
)


def test_a_stage_is_all_of_its_kinds_unless_some_are_asked_for():
    assert BATCH.share(Stage.READING) == pytest.approx(0.7)
    assert BATCH.share(Stage.READING, "table") == pytest.approx(0.4)
    assert BATCH.share(Stage.FETCHING) == 0


def test_a_line_stands_once_however_many_libraries_it_passes_through():
    assert [(one.at.line, pytest.approx(one.share)) for one in BATCH.lines(Stage.READING)] == [
        (5, 0.6),
        (6, 0.1),
    ]


def test_waits_that_are_left_out_are_named_where_they_make_another_number():
    of_step = step(data_wait=40, forward=60)
    starts = {"the starts of epochs": 0.01, "other loaders": 0.0}
    assert waits(of_step) == "40% of each step waits for the next batch"
    assert (
        waits_beside(of_step, starts)
        == "30% of each step waits for the next batch, not counting the starts of epochs"
    )
    assert waits_beside(of_step, {"other loaders": 1e-4}) == waits(of_step)
