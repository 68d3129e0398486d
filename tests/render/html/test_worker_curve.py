from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.loader_curve import LoaderCurve, Measured, Rate, WorkerSetting
from perfdoctor.render.html.worker_curve import ROOM, worker_curve
from tests.support.facts import loader, step


def setting(workers, per_s, noise=0.1):
    return WorkerSetting(workers, warm=Rate(100, 100 / per_s, noise, 8.0, 0.001))


LOADER = Measured(1, None, "Digits", False, 8, 1, 2, False, False, None, None, 1)
CURVE = LoaderCurve(
    "/home/ada/runs/a", "/home/ada", ("train.py",), 4.0, 1, "whole", 0, LOADER,
    settings=(setting(0, 10), setting(1, 20), setting(2, 40), WorkerSetting(4)),
    knee=2, best=2, headline="2 workers are enough",
)  # fmt: skip


def test_each_number_of_workers_that_was_measured_has_a_bar_on_one_axis():
    drawn = worker_curve(CURVE, None, None, "/home/ada")
    assert [(bar.name, bar.style) for bar in drawn.bars] == [
        ("0 workers", "setting"),
        ("1 worker · as now", "setting"),
        ("2 workers · enough", "knee"),
    ]
    assert drawn.bars[2].width == pytest.approx(100 / ROOM, abs=0.01)
    assert drawn.bars[2].doubt == pytest.approx((90 / ROOM, 100), abs=0.01)
    assert (drawn.wanted, drawn.path, drawn.bars[0].told) == (None, "runs/a", "10 batches/s")


def test_the_line_is_what_training_takes_if_it_never_waits():
    drawn = worker_curve(CURVE, loader(), step(data_wait=90, forward=10), "/home/ada")
    assert drawn.wanted == pytest.approx(100 / ROOM, abs=0.01)  # a batch of 10 ms: 100 a second
    assert drawn.bars[2].width == pytest.approx(40 / ROOM, abs=0.01)
    assert "Dashed: 100," in drawn.told
    assert worker_curve(CURVE, loader(), step(data_wait=90), "").wanted is None


def test_nothing_is_called_enough_where_the_figures_are_in_doubt():
    drawn = worker_curve(replace(CURVE, unclear=True), None, None, "")
    assert {bar.style for bar in drawn.bars} == {"setting"}
