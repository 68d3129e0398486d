from __future__ import annotations

import pytest

from perfdoctor.facts.device.device_errors import notes, unused
from perfdoctor.model.note import Note
from perfdoctor.render.notes import all_worded
from tests.support.facts import run
from tests.support.records import records


def told(gpus):
    return list(notes(records(gpus=gpus)))


def rows(*reasons):
    return tuple(
        {"t_ns": at, "reasons": {"utilisation": why} if why else {}} for at, why in enumerate(reasons)
    )


def test_samples_say_which_device_was_lost():
    found = told({0: rows(None, None), 2: rows(None, "the device is lost")})
    assert found == [Note("device-lost-at", {"devices": "2"})]
    assert all_worded(found)[0].startswith("device 2 failed during the run")


def test_a_device_that_came_back_or_cannot_tell_is_not_lost():
    assert told({0: rows("the device is lost", None), 1: rows("not available for a MIG instance")}) == []
    assert told({0: ({"t_ns": 1, "reasons": None},), 1: ()}) == []


IDLE = {0: ({"t_ns": 1, "name": "NVIDIA A100"},), 1: ({"t_ns": 1, "name": "NVIDIA A100"},)}


@pytest.mark.parametrize(
    ("torch", "slug", "said"),
    [
        ("2.8.0+cu128", "unused-device", "torch.cuda.is_available()"),
        (None, "unused-device", "torch.cuda.is_available()"),
        ("2.8.0+cpu", "unused-device-build", "torch 2.8.0+cpu is built without support for it"),
    ],
)
def test_training_on_the_cpu_beside_a_device_is_told(torch, slug, said):
    found = list(unused(records(gpus=IDLE), run(device="cpu", torch=torch)))
    assert [note.slug for note in found] == [slug]
    assert "this machine has NVIDIA A100:" in all_worded(found)[0]
    assert said in all_worded(found)[0]


def test_a_device_that_trains_and_a_machine_without_one_are_not():
    assert list(unused(records(gpus=IDLE), run(device="NVIDIA A100"))) == []
    assert list(unused(records(gpus={0: (), 1: ({"t_ns": 1},)}), run(device="cpu"))) == []
    assert list(unused(records(), run(device="cpu"))) == []
