from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from perfdoctor.batch import Stage
from perfdoctor.model import Bottleneck, Phase
from perfdoctor.render import json as public
from tests import loadfacts, reports

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text())


def parsed(report):
    return json.loads(public.dumps(report))


def test_a_batch_is_told_by_stage_with_its_lines():
    batch = loadfacts.batch(loadfacts.cost(Stage.DECODING, 1.0, kind="image", library="PIL"), ms=20)
    found = parsed(replace(reports.STARVED, batch=batch))
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    (stage,) = found["batch"]["stages"]
    assert (stage["stage"], stage["library"], stage["seconds"]) == ("decoding", "PIL", 0.02)
    assert stage["lines"][0]["at"]["line"] == 12


@pytest.mark.parametrize("name", ["STARVED", "HEALTHY", "NO_STEPS"])
def test_every_report_obeys_the_published_schema(name):
    jsonschema.Draft202012Validator(SCHEMA).validate(parsed(getattr(reports, name)))


def test_the_schema_is_itself_a_schema_and_refuses_a_share_above_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    wrong = parsed(reports.STARVED)
    wrong["steps"]["phases"]["data_wait"]["share"] = 1.2
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, SCHEMA)


def test_the_finding_carries_line_gain_class_and_tweak():
    finding = parsed(reports.STARVED)["findings"][0]
    assert finding["id"] == "too-few-workers"
    assert finding["rank"] == 1
    assert finding["class"] == "data"
    assert finding["gain"] == {"low": 1.8, "likely": 2.3, "high": 2.6}
    assert finding["tweak"] == "--workers 3"
    assert (finding["at"][0]["file"], finding["at"][0]["line"]) == ("train.py", 41)


def test_phases_add_up_to_the_mean_step():
    steps = parsed(reports.STARVED)["steps"]
    assert set(steps["phases"]) == {phase.value for phase in Phase}
    total_s = sum(phase["seconds_per_step"] for phase in steps["phases"].values())
    assert total_s == pytest.approx(steps["step_s"]["mean"])
    assert sum(phase["share"] for phase in steps["phases"].values()) == pytest.approx(1.0)


def test_a_run_without_steps_says_null_not_zero():
    document = parsed(reports.NO_STEPS)
    assert document["steps"] is None
    assert document["overhead"] is None
    assert document["loader"] is None


def test_what_is_not_a_number_becomes_null():
    endless = replace(reports.DIAGNOSIS, ceilings={Bottleneck.DATA: math.inf}, ceiling_speedup=math.inf)
    steps = replace(reports.STEPS, first_loss=math.nan)
    document = parsed(replace(reports.STARVED, diagnosis=endless, steps=steps))
    assert document["bottleneck"]["ceiling_speedup"] is None
    assert document["ceilings"] == {"data": None}
    assert document["steps"]["first_loss"] is None


def test_a_number_from_a_damaged_file_that_no_reader_can_hold_becomes_null():
    memory = replace(reports.STARVED.memory, private_bytes=2**80)
    assert parsed(replace(reports.STARVED, memory=memory))["memory"]["private_bytes"] is None
