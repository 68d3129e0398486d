from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.measured import Location, RestartingLoader
from perfdoctor.tips.workers_restart_each_epoch import workers_restart_each_epoch as tip
from tests.support import facts
from tests.support.facts import LOADER_LINE, loader, step

STEPS = step(count=1000, data_wait=5, forward=5)  # 10 s
STALLED = {"workers": 4, "batch": 20, "epochs": 11, "epoch_start_s": 0.32, "steady_wait_s": 0.0}


def test_fires_on_the_stalls_and_takes_them_out():
    advice = tip(STEPS, loader(**STALLED))
    assert advice is not None
    assert advice.because == (
        "each of 11 epochs begins with a wait of 0.32 s",
        "a batch costs 20.0 ms: the rest restarts 4 workers",
        "that is 30% of the training time",
    )
    assert facts.gain(advice).likely == pytest.approx(10 / 7)
    assert advice.at == (LOADER_LINE,)
    assert advice.tweak == "--persistent-workers"
    assert advice.arguments == "dataloader_num_workers=4, dataloader_persistent_workers=True"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"persistent_workers": True}, id="they-live-on"),
        pytest.param({"workers": 0}, id="no-workers"),
        pytest.param({"epochs": 1}, id="one-epoch"),
        pytest.param({"epoch_start_s": None}, id="not-measured"),
        pytest.param({"epoch_start_s": 0.0399}, id="just-under-the-threshold"),
        pytest.param({"epoch_start_s": 0.021}, id="only-the-first-batch"),
        pytest.param({"steady_wait_s": 0.3}, id="every-batch-is-as-late"),
    ],
)
def test_is_silent(change):
    assert tip(STEPS, loader(**{**STALLED, **change})) is None


def test_workers_that_stop_at_each_end_of_an_epoch_take_time_as_well():
    advice = tip(STEPS, loader(**STALLED, epoch_end_s=0.1))
    assert advice is not None
    assert facts.gain(advice).likely == pytest.approx(10 / 6)


HELD_BACK = Location("train.py", 43, "main", "held_back = DataLoader(rest, num_workers=2)")
VALIDATION = RestartingLoader(2, HELD_BACK, passes=11, each_s=0.1, per_step_s=0.001)
VALIDATES = {"others_restart_s": 0.001, "restarting": (VALIDATION,)}


def test_workers_of_a_validation_loader_are_named_as_well():
    advice = tip(STEPS, loader(**STALLED, **VALIDATES))
    assert advice is not None
    assert "each of 11 passes over the loader in line 43 restarts 2 workers: 0.10 s" in advice.because
    assert advice.at == (LOADER_LINE, HELD_BACK)
    assert facts.gain(advice).likely == pytest.approx(10 / 6)


@pytest.mark.parametrize(
    ("training", "change"),
    [({"persistent_workers": True}, "starts"), ({"workers": 0}, "others"), ({"epochs": 1}, "starts")],
    ids=["training's live on", "training has none", "training is in its first epoch"],
)
def test_workers_of_a_validation_loader_are_named_alone(training, change):
    advice = tip(STEPS, loader(**{**STALLED, **VALIDATES, **training}))
    assert advice is not None
    assert advice.because == (
        "each of 11 passes over the loader in line 43 restarts 2 workers: 0.10 s",
        "that is 10% of the training time",
    )
    assert (advice.at, advice.tweak) == ((HELD_BACK,), "--persistent-workers")
    assert getattr(advice.change, change).likely == pytest.approx(0.1)
    assert advice.code == "DataLoader(..., num_workers=2, persistent_workers=True)"


def test_validation_loaders_made_for_each_pass_need_one_that_is_made_once():
    anew = {**VALIDATES, "restarting": (replace(VALIDATION, built=11, anew=True),)}
    advice = tip(STEPS, loader(**{**STALLED, **anew, "persistent_workers": True}))
    assert advice is not None
    assert "that line made 11 loaders, and the workers of each end with it" in advice.because
    assert advice.tweak is None
    assert "made once" in advice.code


def test_steps_that_train_longer_while_workers_start_are_credited_if_not_for_sure():
    advice = tip(STEPS, loader(**STALLED, epoch_slowed_s=0.2))
    assert advice is not None
    said = "steps are slower while workers start: 20% of the training time"
    assert said in advice.because
    step = advice.change.step
    assert (step.low, step.likely, step.high) == pytest.approx((0.0, 0.2, 0.2))
    assert said not in tip(STEPS, loader(**STALLED, epoch_slowed_s=0.01)).because


def test_fires_just_above_the_threshold():
    assert tip(STEPS, loader(**{**STALLED, "epoch_start_s": 0.0401})) is not None


def test_workers_that_end_with_a_loader_made_anew_need_one_that_is_made_once():
    advice = tip(STEPS, loader(**STALLED, built=11, anew=True))
    assert advice is not None
    assert "the line made 11 loaders, and the workers of each end with it" in advice.because
    assert advice.tweak is None  # nothing lives on with a loader that goes
    assert advice.code is not None
    assert "made once" in advice.code


def test_loaders_of_several_folds_that_epochs_go_through_again_need_no_more_than_the_flag():
    advice = tip(STEPS, loader(**STALLED, built=3))
    assert advice is not None
    assert not any("the line made" in said for said in advice.because)
    assert advice.tweak == "--persistent-workers"
    assert advice.code == "DataLoader(..., num_workers=4, persistent_workers=True)"
    assert facts.gain(advice).likely == pytest.approx(1 / (1 - 0.3 * (11 - 3) / 10))
    assert tip(STEPS, loader(**STALLED, built=3, persistent_workers=True)) is None
