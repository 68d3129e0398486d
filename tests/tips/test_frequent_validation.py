from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.user_source.update_dependence import Dependence
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.interval import Interval
from perfdoctor.tips.frequent_validation import frequent_validation as tip
from tests.support.facts import evals, gain, step
from tests.support.host_facts import validation

STEP = step(forward=3, backward=3, validation=4)


def judge(of_step, of_validation, grad=0.0):
    return tip(of_step, evals(seconds=4, grad=grad), of_validation)


def test_names_how_often_and_how_long_and_the_line_that_repeats_it():
    advice = judge(STEP, validation(seconds=4, between=50))
    assert advice is not None
    assert advice.because == (
        "validation takes 40% of the training time",
        "10 validations of 0.20 s, one every 50 steps",
    )
    assert [at.line for at in advice.at] == [80, 60]
    assert advice.code == "if step % 200 == 0:\n    accuracy = validate(model)"
    assert gain(advice).low == pytest.approx(1 / (1 - 0.2))
    assert gain(advice).likely == pytest.approx(1 / (1 - 0.3))
    assert gain(advice).high == pytest.approx(1 / (1 - 0.36))


def test_what_a_cache_spares_is_not_sold_again():
    advice = judge(STEP, replace(validation(seconds=4), spared_per_step_s=0.002))
    assert advice.because[0] == (
        "validation takes 40% of the training time, 20% beyond what a key/value cache spares"
    )
    assert advice.change.pauses.likely == pytest.approx(0.75 * 0.2)
    assert judge(STEP, replace(validation(seconds=4), spared_per_step_s=0.0034)) is None


def test_a_cache_that_spares_little_leaves_the_rest_to_be_said():
    advice = judge(STEP, replace(validation(seconds=1.6), spared_per_step_s=0.0004))
    assert "16% of the training time, 12% beyond" in advice.because[0]
    assert advice.change.pauses.likely == pytest.approx(0.75 * 0.12)


def test_waits_for_its_batches_are_part_of_it():
    advice = judge(step(forward=5, backward=3, validation=1, data_wait=1), validation(seconds=1, wait=1))
    assert advice is not None
    assert advice.because[0] == "validation takes 20% of the training time"
    assert (advice.also, advice.change.others.high) == ((Bottleneck.DATA,), pytest.approx(0.09))


def test_waits_that_workers_take_away_are_not_sold_again():
    of_step = step(forward=3, backward=1, validation=2, data_wait=4)
    advice = judge(of_step, replace(validation(seconds=2, wait=4), spared_wait_per_step_s=0.003))
    assert (
        advice.because[0] == "validation takes 60% of the training time, 30% beyond what other workers spare"
    )
    assert (advice.change.pauses.likely, advice.change.others.likely) == pytest.approx((0.15, 0.075))
    assert judge(of_step, replace(validation(seconds=1, wait=4), spared_wait_per_step_s=0.0038)) is None


def test_asking_the_model_at_every_step_is_validation_only_by_name():
    assert judge(STEP, validation(between=1, function="act", text="play()")) is None
    assert judge(STEP, validation(between=1, function="evaluate")) is not None


@pytest.mark.parametrize(
    ("of_step", "of_validation"),
    [
        pytest.param(
            step(forward=8.51, validation=1.49), validation(seconds=1.49), id="just-under-the-share"
        ),
        pytest.param(STEP, validation(count=2), id="validated-twice"),
    ],
)
def test_is_silent(of_step, of_validation):
    assert judge(of_step, of_validation) is None


def test_fires_just_above_the_threshold():
    assert judge(step(forward=8.49, validation=1.51), validation(seconds=1.51)) is not None


def test_validation_that_records_gradients_has_a_cure_that_validates_as_often():
    assert judge(STEP, validation(seconds=4, between=50), grad=2.1) is None
    assert judge(STEP, validation(seconds=4, between=50), grad=1.9) is not None


def test_a_validation_that_training_may_need_is_not_skipped_alone():
    text = "error = validate(model)"
    advice = judge(STEP, validation(seconds=4, between=50, text=text, dependence=Dependence.UNKNOWN))
    assert advice is not None
    assert text not in (advice.code or "")
    assert "schedule" in (advice.code or "")


def test_passes_whose_results_the_updates_need_are_validation_only_by_name():
    rollout = validation(function="collect_rollouts", text="batch = collect()", dependence=Dependence.UPDATE)
    assert judge(STEP, rollout) is None
    stopping = validation(function="evaluate", text="loss = evaluate(model)", dependence=Dependence.UPDATE)
    assert judge(STEP, stopping) is not None


@pytest.mark.parametrize(
    "text",
    [
        "action = agent.act(state.to(self.device))",
        "latest = agent.act(state)",
        "docs = retrieve(model, query, metric)",
        "action = self.policy(",
    ],
)
def test_words_that_only_hold_such_a_name_and_arguments_are_none(text):
    acting = validation(between=1, function="retrieval_step", text=text, dependence=Dependence.UPDATE)
    assert judge(STEP, acting) is None


@pytest.mark.parametrize(
    ("interval", "code"),
    [
        (Interval("epoch", of_updates=False), "if epoch % 4 == 0:\n    accuracy = validate(model)"),
        (Interval("it", counted="it", period="50"), "if it % 200 == 0:\n    accuracy = validate(model)"),
        (Interval("it"), "if it % 200 == 0:\n    accuracy = validate(model)"),
    ],
)
def test_the_longer_interval_is_one_of_the_loop_around_the_line(interval, code):
    found = replace(validation(seconds=4, between=50), interval=interval)
    assert judge(STEP, found).code == code


def test_a_line_in_another_function_than_its_loop_is_not_moved_there():
    apart = Interval("epoch", of_updates=False, is_in_caller=True)
    code = judge(STEP, replace(validation(seconds=4, between=50), interval=apart)).code
    assert code.startswith("if epoch % 4 == 0:\n    ...  # validate")
