from __future__ import annotations

import json
import math
from dataclasses import replace

import jsonschema
import pytest

from perfdoctor.errors import PerfdoctorError
from perfdoctor.render.documents import trial as trial_document
from perfdoctor.trials import trial_file
from perfdoctor.trials.settings import rank_count
from tests.support import trial_results as made
from tests.support.paths import DOCS

SCHEMA = json.loads((DOCS / "trial.schema.json").read_text())
DEEP = json.loads("[" * 300 + "]" * 300)
EVERYTHING = made.trial(*made.ALL, interrupted=True, kept=("--workers", "4"))


def parsed(trial):
    return json.loads(trial_document.dumps(trial))


def kept(trial):
    trial_file.keep(trial, trial_document.document(trial))


def test_a_trial_is_read_back_as_it_was_written(tmp_path):
    trial = replace(EVERYTHING, path=str(tmp_path), command=("python", "train.py"))
    kept(trial)
    assert trial_file.read(tmp_path) == trial


def test_a_scaling_curve_obeys_the_schema_and_is_read_back(tmp_path):
    words = ("python", "train.py")
    launched = rank_count.typed_commands(words, (1, 2, 4))
    assert launched[2].endswith("--nproc-per-node 2 train.py")
    trial = made.scaled(path=str(tmp_path), command=words, rank_commands=launched)
    jsonschema.Draft202012Validator(SCHEMA).validate(parsed(trial))
    kept(trial)
    assert trial_file.read(tmp_path) == trial
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
    assert trial_file.trial_of(document).verdicts[0].outcome.value == "faster"


@pytest.mark.parametrize("name", ["losses", "printed", "turns_s"])
def test_what_is_no_number_is_null_as_the_schema_says_and_comes_back(tmp_path, name):
    trial = made.trial(originals=(made.execution(**{name: (2.0, math.nan)}),), path=str(tmp_path))
    jsonschema.Draft202012Validator(SCHEMA).validate(parsed(trial))
    kept(trial)
    first, second = getattr(trial_file.read(tmp_path).originals[0], name)
    assert first == 2.0
    assert math.isnan(second)


def test_a_metric_that_became_no_number_is_shown_again(tmp_path):
    trial = made.trial(replace(made.FASTER, metric=(0.5, math.nan)), path=str(tmp_path))
    jsonschema.Draft202012Validator(SCHEMA).validate(parsed(trial))
    kept(trial)
    metric = trial_file.read(tmp_path).verdicts[0].metric
    assert metric is not None
    assert metric[0] == 0.5
    assert math.isnan(metric[1])


def test_fields_of_later_versions_are_left_out():
    document = parsed(EVERYTHING)
    document["more"] = document["variants"][0]["more"] = document["original"]["executions"][0]["more"] = 1
    assert len(trial_file.trial_of(document).verdicts) == len(made.ALL)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": "perfdoctor.trial/1", "command": []}'])
def test_what_is_no_trial_is_one_sentence(tmp_path, text):
    (tmp_path / trial_file.FILE).write_text(text)
    with pytest.raises(PerfdoctorError, match="no readable trial in"):
        trial_file.read(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.update(rounds="3"),
        lambda document: document.update(command=["python", 3]),
        lambda document: document.update(variants=[3]),
        lambda document: document.update(base_ranks=[1]),
        lambda document: document["variants"][0].update(speedup={"low": 1, "likely": "2", "high": 3}),
        lambda document: document["variants"][0].update(because=None),
        lambda document: document["variants"][0].update(speedup={"low": 0, "likely": 0, "high": 0}),
        lambda document: document["variants"][0].update(speedup=True),
        lambda document: document["original"]["executions"][0].update(step_s=-1.0),
        lambda document: document["variants"][0]["settings"][0]["values"].update(value=DEEP),
        lambda document: document["original"]["executions"][0].update(losses=["x"]),
        lambda document: document["original"]["executions"][0].update(phases={"forward": None}),
    ],
    ids=[
        "number",
        "words",
        "variant",
        "ranks",
        "gain",
        "sentence",
        "no gain",
        "no range",
        "time",
        "deep",
        "losses",
        "phases",
    ],
)
def test_a_value_of_another_kind_is_damage(tmp_path, change):
    document = parsed(EVERYTHING)
    change(document)
    (tmp_path / trial_file.FILE).write_text(json.dumps(document))
    with pytest.raises(PerfdoctorError, match="no readable trial in"):
        trial_file.read(tmp_path)
