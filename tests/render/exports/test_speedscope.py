from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from perfdoctor.render.exports.speedscope import SCHEMA, speedscope
from tests.support.recorded import LINE, NOTHING, RECORDED

INDICES = {"type": "array", "items": {"type": "integer", "minimum": 0}}
PROFILE = {
    "type": "object",
    "required": ["type", "name", "unit", "startValue", "endValue", "samples", "weights"],
    "properties": {
        "type": {"const": "sampled"},
        "name": {"type": "string"},
        "unit": {"enum": ["none", "seconds"]},
        "startValue": {"const": 0},
        "endValue": {"type": "number", "minimum": 0},
        "samples": {"type": "array", "items": INDICES},
        "weights": {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}},
    },
    "additionalProperties": False,
}
FRAME = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
FORMAT = {
    "type": "object",
    "required": ["$schema", "shared", "profiles"],
    "properties": {
        "$schema": {"const": SCHEMA},
        "shared": {"required": ["frames"], "properties": {"frames": {"type": "array", "items": FRAME}}},
        "profiles": {"type": "array", "items": PROFILE},
    },
}


def read(text):
    """A file that obeys the format, and whose samples name frames that are there."""
    file = json.loads(text)
    jsonschema.validate(file, FORMAT)
    for profile in file["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] == pytest.approx(sum(profile["weights"]))
    frames = [frame["name"] for frame in file["shared"]["frames"]]
    return {
        profile["name"]: [
            ([frames[place] for place in sample], weight)
            for sample, weight in zip(profile["samples"], profile["weights"], strict=True)
        ]
        for profile in file["profiles"]
    }


def test_each_thread_is_a_profile_in_seconds_the_training_thread_first():
    profiles = read(speedscope(RECORDED))
    assert list(profiles) == ["main", "worker 9"]
    (names, weight), (others, less) = profiles["main"]
    assert names[:2] == ["forward", LINE]
    assert (weight, less) == (pytest.approx(1.5), pytest.approx(0.5))
    assert others == ["other", LINE]


def test_where_the_rate_is_not_known_weights_are_samples():
    text = speedscope(replace(RECORDED, sample_s=None))
    assert json.loads(text)["profiles"][0]["unit"] == "none"
    assert read(text)["worker 9"][0][1] == 4


def test_without_stacks_there_is_no_profile():
    assert read(speedscope(NOTHING)) == {}
