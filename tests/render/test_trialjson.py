from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from perfdoctor.errors import PerfdoctorError
from perfdoctor.redact import REDACTED
from perfdoctor.render import trialjson
from perfdoctor.trial import Ending
from tests import trialresults as made

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "trial.schema.json").read_text())
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


def test_a_trial_is_read_back_as_it_was_written(tmp_path):
    trial = replace(EVERYTHING, path=str(tmp_path), command=("python", "train.py"))
    trialjson.write(trial)
    assert trialjson.read(tmp_path) == trial


def test_a_scaling_curve_obeys_the_schema_and_is_read_back(tmp_path):
    trial = made.scaled(path=str(tmp_path), command=("python", "train.py"))
    jsonschema.Draft202012Validator(SCHEMA).validate(parsed(trial))
    trialjson.write(trial)
    assert trialjson.read(tmp_path) == trial
    document = parsed(trial)
    assert (document["base_ranks"], document["variants"][0]["ranks"]) == (1, 2)
    assert document["scaling"][1]["efficiency"] == {"low": 0.8, "likely": 0.85, "high": 0.9}


def test_a_document_from_before_there_were_curves_is_read():
    document = parsed(made.trial(made.FASTER))
    for name in ("cwd", "base_ranks", "scaling"):
        del document[name]
    for executed in (document["original"], *document["variants"]):
        for execution in executed["executions"]:
            for name in ("ranks", "phases", "cpu_s", "may_differ"):
                del execution[name]
    del document["variants"][0]["ranks"]
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert trialjson.trial_of(document).verdicts[0].outcome.value == "faster"


def test_losses_that_are_no_numbers_are_null_and_come_back(tmp_path):
    trial = made.trial(originals=(made.execution(losses=(2.0, math.nan)),), path=str(tmp_path))
    trialjson.write(trial)
    first, second = trialjson.read(tmp_path).originals[0].losses
    assert first == 2.0
    assert math.isnan(second)


def test_fields_of_later_versions_are_left_out():
    document = parsed(EVERYTHING)
    document["more"] = document["variants"][0]["more"] = document["original"]["executions"][0]["more"] = 1
    assert len(trialjson.trial_of(document).verdicts) == len(made.ALL)


def test_secrets_of_the_command_are_not_kept():
    document = parsed(made.trial(command=("python", "train.py", "--api-key", "abc123")))
    assert document["command"][-1] == REDACTED


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": "perfdoctor.trial/1", "command": []}'])
def test_what_is_no_trial_is_one_sentence(tmp_path, text):
    (tmp_path / trialjson.FILE).write_text(text)
    with pytest.raises(PerfdoctorError, match="holds no trial that can be read"):
        trialjson.read(tmp_path)


def test_a_summary_takes_means_of_times_the_most_of_memory_and_only_what_was_measured_to_the_end():
    found = trialjson.summary(
        [
            made.execution(0, 0.02, host_bytes=5),
            made.execution(1, 0.08, host_bytes=9),
            made.execution(2, 1.0, ending=Ending.INTERRUPTED, host_bytes=99),
        ]
    )
    assert found.step_s == pytest.approx(0.04)
    assert (found.executions, found.host_bytes, found.samples_per_s) == (2, 9, None)
