from __future__ import annotations

import pytest

from perfdoctor.facts.script import out_of_memory as memory
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.facts import loader
from tests.support.records import rows, source_of, update

GB = 10**9
STEPS = find(rows([update(10)] * 12))
SOURCES = Sources(source_of(train="x = model(batch)"))
ON_DEVICE = {
    "event": "out_of_memory", "device": "cuda:0", "asked_bytes": 2 * GB, "parameters_bytes": 4 * GB,
    "gradients_bytes": 4 * GB, "optimizer_bytes": 8 * GB, "base_bytes": None, "stepped": True,
    "held_bytes": 76 * GB, "reserved_bytes": 78 * GB, "free_bytes": 1 * GB, "total_bytes": 80 * GB,
    "at": {"file": "/home/me/train.py", "line": 1},
}  # fmt: skip
ON_HOST = {**ON_DEVICE, "device": "cpu", "reserved_bytes": None, "base_bytes": 1 * GB}


def told(steps=STEPS, batch_size=128, **given):
    rank = RankRecords(0, None, None, ({**ON_DEVICE, **given},))
    return memory.out_of_memory(rank, steps, loader(batch_size=batch_size), SOURCES)


def held(found):
    return {each.name: each.held_bytes / GB for each in found.held}


def slugs(found):
    return [note.slug for note in found.remedies]


def test_all_of_a_device_is_told_by_holder():
    found = told()
    assert held(found) == {
        "parameters": 4, "gradients": 4, "optimizer state": 8, "activations and all other tensors": 60,
        "reserved by torch and not in use": 2, "other processes": 1,
    }  # fmt: skip
    assert (found.device, found.step, found.at.text) == ("cuda:0", 13, "x = model(batch)")


def test_a_batch_that_would_have_fitted_is_computed_from_what_grows_with_it():
    (note,) = [note for note in told(asked_bytes=32 * GB).remedies if note.slug == "memory-fits-batch"]
    assert note.values == {"batch": 128, "fits": 87, "times": 2}  # 63 of the 92 GB that a batch of 128 takes
    assert "memory-fits-batch" not in slugs(told(asked_bytes=32 * GB, batch_size=None))


@pytest.mark.parametrize("given", [{"asked_bytes": 0, "held_bytes": 0}, {}])
def test_where_the_model_alone_is_too_large_no_batch_fits(given):
    assert "memory-fits-batch" not in slugs(told(parameters_bytes=90 * GB, **given))


def test_on_the_host_what_was_there_before_training_is_told_apart():
    found = told(**ON_HOST)
    assert held(found)["the process, before it trained"] == 1
    assert held(found)["activations and all other tensors"] == 59
    assert "other processes" not in held(found)


@pytest.mark.parametrize(
    ("given", "slug"),
    [
        ({"asked_bytes": 81 * GB}, "memory-more-than-all"),
        ({"device": None}, "memory-of-a-worker"),
        ({"reserved_bytes": 60 * GB, "held_bytes": 50 * GB}, "memory-of-others"),
        ({"held_bytes": 60 * GB}, "memory-fragmented"),
        ({}, "memory-of-activations"),
        ({"optimizer_bytes": 60 * GB}, "memory-of-the-model"),
        ({"stepped": False}, "memory-to-come"),
    ],
)
def test_what_to_do_follows_from_who_holds_it(given, slug):
    assert slug in slugs(told(**given))


def test_an_allocation_beyond_all_there_is_has_no_other_remedy():
    assert slugs(told(asked_bytes=81 * GB)) == ["memory-more-than-all"]


def test_it_may_happen_before_the_first_step_and_with_nothing_known():
    unknown = dict.fromkeys(
        ("asked_bytes", "held_bytes", "reserved_bytes", "free_bytes", "total_bytes", "at")
    )
    found = told(steps=Missing("no step was seen"), **unknown)
    assert (found.step, found.at, found.total_bytes) == (1, None, None)
    assert memory.out_of_memory(RankRecords(0, None, None, ()), STEPS, None, SOURCES) is None
