from __future__ import annotations

import json
import math
from dataclasses import replace

import jsonschema
import pytest

from perfdoctor.model.batch import Stage
from perfdoctor.model.concluded import Bottleneck, Gain
from perfdoctor.model.lines import WaitPart
from perfdoctor.model.measured import Location, Phase
from perfdoctor.model.note import Note
from perfdoctor.model.ranks import ScalePoint
from perfdoctor.render.documents import report as public
from tests.support import facts, job_facts, load_facts, reports
from tests.support.line_facts import lines
from tests.support.paths import DOCS

SCHEMA = json.loads((DOCS / "report.schema.json").read_text())


def parsed(report):
    return json.loads(public.dumps(report))


def test_a_batch_is_told_by_stage_with_its_lines():
    batch = load_facts.batch(load_facts.cost(Stage.DECODING, 1.0, kind="image", library="PIL"), ms=20)
    found = parsed(replace(reports.STARVED, batch=batch))
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    (stage,) = found["batch"]["stages"]
    assert (stage["stage"], stage["library"], stage["seconds"]) == ("decoding", "PIL", 0.02)
    assert stage["lines"][0]["at"]["line"] == 12


def test_all_lines_of_the_step_are_told_with_their_phase_and_what_was_not_seen():
    many = [(number, Phase.FORWARD, 0.1) for number in range(1, 31)]
    found = parsed(replace(reports.STARVED, lines=lines(*many, unseen=1.5, wait=WaitPart.SAMPLER)))
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    told = found["lines"]
    assert len(told["lines"]) == 30
    assert (told["lines"][0]["at"]["line"], told["lines"][0]["phase"]) == (1, "forward")
    assert told["lines"][0]["wait"] == "sampler"
    assert told["unseen_s"] == {"other": 0.0015}


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
    endless = replace(reports.DIAGNOSIS, bounds={Bottleneck.DATA: math.inf}, bound=math.inf)
    steps = replace(reports.STEPS, first_loss=math.nan)
    document = parsed(replace(reports.STARVED, diagnosis=endless, steps=steps))
    assert document["bottleneck"]["ceiling_speedup"] is None
    assert document["ceilings"] == {"data": None}
    assert document["steps"]["first_loss"] is None


def test_a_number_from_a_damaged_file_that_no_reader_can_hold_becomes_null():
    memory = replace(reports.STARVED.memory, private_bytes=2**80)
    assert parsed(replace(reports.STARVED, memory=memory))["memory"]["private_bytes"] is None


def test_the_ranks_of_a_job_are_told_one_by_one_with_who_is_late_and_what_is_exchanged():
    kinds = {"all_gather": (8.0, 80_000_000, 0.02)}
    scale = (
        ScalePoint(
            8, 0.114, Gain(6.5, 6.8, 7.0), Bottleneck.NETWORK, Note("gradient-sync-takes", {"share": 0.41})
        ),
    )
    exchange = replace(job_facts.EXCHANGE, by_kind=kinds)
    job = job_facts.job(
        8, 2, gradient_sync=exchange, scale=scale, waits={Bottleneck.DATA: 0.017}, missing=(8,)
    )
    document = parsed(replace(reports.STARVED, job=job))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    ranks = document["ranks"]
    assert (ranks["world"], ranks["missing"], ranks["clock_error_s"]) == (8, [8], 0.0003)
    assert (ranks["late"]["rank"], ranks["late"]["cause"], ranks["late"]["phase"]) == (3, "data", "data_wait")
    assert ranks["exchange"]["by_kind"]["all_gather"]["calls_per_step"] == 8.0
    assert ranks["exchange"]["at"]["file"] == "train.py"
    assert ranks["scale"][0]["bound"] == "network"
    assert ranks["waits"] == {"data": 0.017}
    for one in ranks["each"]:
        assert sum(one["phases"].values()) == pytest.approx(one["step_s"])
        assert one["waiting_s"] + one["moving_s"] == pytest.approx(one["phases"]["grad_sync"])


def test_a_job_without_a_late_rank_and_a_hung_one_obey_the_schema_too():
    for job in (job_facts.job(2, slow=None, gradient_sync=None), job_facts.hung(4)):
        document = parsed(replace(reports.STARVED, job=job))
        jsonschema.Draft202012Validator(SCHEMA).validate(document)
        assert document["ranks"]["late"] is None
    assert document["ranks"]["each"][1]["inside"] == "train.py:20 (evaluate)"


def test_one_rank_has_no_ranks_to_join():
    document = parsed(reports.STARVED)
    assert document["ranks"] is None
    assert document["run"]["ranks"] == 1


def test_the_line_that_builds_the_loader_is_named_in_full():
    at = Location("/home/ada/digits/train.py", 41)
    document = public.document(replace(reports.STARVED, loader=replace(facts.loader(), at=at)))
    assert document["loader"]["at"]["file"] == at.file
    assert document["findings"][0]["at"][0]["file"] == "train.py"


def test_the_end_for_want_of_memory_is_told_in_bytes_and_sentences():
    found = parsed(reports.OUT_OF_MEMORY)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    told = found["out_of_memory"]
    assert (told["device"], told["step"], told["held"][0]["held_bytes"]) == ("cuda:0", 13, 4_000_000_000)
    assert told["remedies"][0].startswith("batches of 96 would have fitted up to here (instead of 128)")
    assert parsed(reports.STARVED)["out_of_memory"] is None
