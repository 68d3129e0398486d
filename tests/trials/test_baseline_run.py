from __future__ import annotations

import json
from dataclasses import replace

import pytest

from perfdoctor.model.concluded import Bottleneck, Gain
from perfdoctor.model.trial import ORIGINAL, Outcome, Variant, VariantResult
from perfdoctor.trials import baseline_run
from tests.support import trial_results as made
from tests.support.old_runs import unpacked


@pytest.fixture
def run(tmp_path):
    return unpacked("loader", tmp_path)


def fitted(run, **data):
    """Lets the run's machine have had trials that ask for this."""
    fits = {"data": {"cases": 12, "below": 0.0, "above": 0.0} | data}
    (run / "ranges.json").write_text(json.dumps({"fitted": {"cpu": fits}}))


def results(run, *results):
    return baseline_run.read(run).with_models(made.trial(*results)).verdicts


def test_predictions_are_in_ranges_of_the_runs_machine_and_keep_what_the_model_says(run):
    variant = Variant((made.WORKERS,))
    usual = baseline_run.read(run).predict(variant)
    (told,) = results(run, VariantResult(variant, Outcome.FASTER, "", predicted=usual))
    assert (told.modelled.acts_on, told.modelled.device) == ((Bottleneck.DATA,), "cpu")
    fitted(run)
    here = baseline_run.read(run).predict(variant)
    assert here == told.modelled.gain  # nothing is widened
    assert usual.low < here.low <= here.likely == usual.likely <= here.high < usual.high
    fitted(run, above=1.0)
    assert baseline_run.read(run).predict(variant).high > usual.high
    (again,) = results(run, VariantResult(variant, Outcome.FASTER, "", predicted=usual))
    assert again.modelled == told.modelled


def test_what_was_not_predicted_or_was_on_top_of_others_has_no_gain_of_the_model(run):
    nothing = replace(made.FASTER, predicted=None)
    on_top = replace(made.FASTER, over=("--amp",))
    assert [result.modelled for result in results(run, nothing, on_top)] == [None, None]


def test_the_original_gains_nothing(run):
    (told,) = results(run, VariantResult(ORIGINAL, Outcome.NO_DIFFERENCE, "", predicted=Gain()))
    assert (told.modelled.gain, told.modelled.acts_on) == (Gain(), ())
