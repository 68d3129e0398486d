from __future__ import annotations

import pytest

from perfdoctor.tips.evaluation_keeps_outputs import evaluation_keeps_outputs as tip
from tests.support.facts import step
from tests.support.host_facts import gathered

STEP = step(forward=3, backward=5, other=2)


def test_names_what_adds_outputs_where_the_trainer_is_made_and_what_calls_it():
    advice = tip(STEP, gathered(0.2, "hidden_states"))
    assert advice.because == (
        "20% of each step (2.00 ms) goes into joining what the model returns in evaluations",
        "the Trainer keeps all outputs for the metrics, and copies them again for each batch",
        "line 5 adds hidden_states to them: `config.output_hidden_states = True`",
    )
    assert [at.line for at in advice.at] == [5, 20, 30]
    assert advice.code == (
        'trainer.train(ignore_keys_for_eval=["hidden_states", "past_key_values"])'
        "  # or leave output_hidden_states off"
    )


def test_nearly_all_of_it_goes():
    share = tip(STEP, gathered(0.2)).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.16, 0.19, 0.2))


def test_elsewhere_predictions_are_made_of_each_batch():
    advice = tip(STEP, gathered(0.2))
    assert [at.line for at in advice.at] == [20, 30]
    assert "preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1)" in advice.code


def test_where_they_are_metrics_may_add_up_batch_by_batch():
    assert "batch_eval_metrics=True" in tip(STEP, gathered(0.2, reduces=True)).code


@pytest.mark.parametrize(("share", "samples"), [(0.049, 100), (0.2, 9)], ids=["small", "rarely seen"])
def test_is_silent(share, samples):
    assert tip(STEP, gathered(share, samples=samples)) is None


def test_a_twentieth_of_the_step_is_enough():
    assert tip(STEP, gathered(0.05, samples=10)) is not None
