from __future__ import annotations

import json

import jsonschema
import pytest

from perfdoctor.render.documents import trial as trialjson
from tests.support import trial_results as made
from tests.support.paths import DOCS

SCHEMA = json.loads((DOCS / "trial.schema.json").read_text())
EVERYTHING = made.trial(*made.ALL, interrupted=True, kept=("--workers", "4"))


def parsed(trial):
    return json.loads(trialjson.dumps(trial))


def test_every_outcome_obeys_the_published_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(parsed(EVERYTHING))
    jsonschema.Draft202012Validator(SCHEMA).validate(parsed(made.trial(originals=())))


def test_the_schema_refuses_a_verdict_of_another_name():
    wrong = parsed(EVERYTHING)
    wrong["variants"][0]["verdict"] = "quicker"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(wrong)


def test_a_variant_carries_tweaks_verdict_speedup_prediction_and_loss():
    document = parsed(made.trial(made.FASTER))
    (variant,) = document["variants"]
    assert (document["rounds"], document["steps"]) == (3, 60)
    assert variant["tweaks"] == ["--workers 4"]
    assert variant["verdict"] == "faster"
    assert variant["speedup"] == {"low": 1.8, "likely": 1.9, "high": 2.0}
    assert variant["predicted"] == {"low": 1.7, "likely": 1.85, "high": 2.1}
    assert {name: variant["loss"][name] for name in ("same", "difference", "noise")} == {
        "same": True,
        "difference": 0.0,
        "noise": 0.0,
    }
    assert variant["executions"][0]["applied"][0]["at"]["line"] == 41


def test_what_was_not_measured_is_null():
    (variant,) = parsed(made.trial(made.FAILED))["variants"]
    assert [variant[name] for name in ("speedup", "predicted", "loss", "metric")] == [None] * 4
    assert variant["measured"]["step_s"] is None
