from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from perfdoctor.diagnosis import trace_report
from perfdoctor.render.documents import trace as tracejson
from perfdoctor.trace.parse.columns import Skipped
from tests.support import rank_traces
from tests.support.paths import DOCS
from tests.support.rank_traces import copy, host_only, matrix, rank, unmarked, wait

SCHEMA = json.loads((DOCS / "trace.schema.json").read_text())
FULL = rank(copies=(copy("HtoD", "pageable", 30),), blocking=(wait(),), matrices=(matrix(8, 8, 8, 1),))


def parsed(*ranks):
    return json.loads(tracejson.dumps(trace_report.report(ranks)))


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(FULL, id="full"),
        pytest.param(host_only(), id="cpu-only"),
        pytest.param(unmarked(launches=None, memory=None, peak=None), id="no-steps"),
        pytest.param(rank(skipped=Skipped(10, 1, "the file ends early")), id="cut-off"),
    ],
)
def test_every_trace_obeys_the_published_schema(trace):
    jsonschema.Draft202012Validator(SCHEMA).validate(parsed(trace))


def test_the_schema_is_itself_a_schema_and_refuses_an_unknown_class():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    wrong = parsed(FULL)
    wrong["ranks"][0]["kernels"][0]["class"] = "magic"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, SCHEMA)


def test_times_are_microseconds_and_what_was_measured():
    found = parsed(FULL)["ranks"][0]
    assert (found["span_us"], found["busy_us"], found["idle_us"]) == (500_000, 300_000, 200_000)
    assert sum(found["idle_by_cause_us"].values()) == pytest.approx(found["idle_us"])
    assert found["copies"] == [
        {
            "direction": "HtoD",
            "host_memory": "pageable",
            "count": 10,
            "bytes": 100_000_000,
            "us": 30_000,
            "gb_per_s": pytest.approx(3.333, abs=0.001),
        }
    ]
    assert found["steps"][0]["name"] == "ProfilerStep#3"
    assert found["steps"][0]["window_us"] == 100_000


def test_all_kernels_are_there_not_only_the_longest():
    many = tuple(rank_traces.kernel(f"kernel_{number}", "pointwise", 1) for number in range(300))
    assert len(parsed(rank(kernels=many))["ranks"][0]["kernels"]) == 300


def test_what_a_trace_of_the_cpu_cannot_tell_is_null():
    found = parsed(host_only())["ranks"][0]
    absent = ("device", "span_us", "busy_us", "compute_us", "idle_by_cause_us", "streams", "launches", "peak")
    assert {name: found[name] for name in absent} == dict.fromkeys(absent)
    assert found["steps"][0]["busy_us"] is None
    assert found["steps"][0]["window_us"] == 100_000


def test_tips_that_a_trace_cannot_judge_are_listed_with_the_reason():
    reasons = {entry["id"]: entry["because"] for entry in parsed(FULL)["not_judged"]}
    assert "perfdoctor run" in reasons["too-few-workers"]


def test_each_rank_has_its_entry_and_the_judged_one_is_named():
    late = replace(rank(), rank=1, file="traces/rank1.json")
    found = parsed(rank(tuple(rank_traces.step(n, comm=20) for n in range(3, 8))), late)
    assert [entry["rank"] for entry in found["ranks"]] == [0, 1]
    assert (found["judged_rank"], found["judged_file"]) == (1, "traces/rank1.json")
