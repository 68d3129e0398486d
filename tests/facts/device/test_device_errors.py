from __future__ import annotations

from perfdoctor.facts.device.device_errors import notes
from perfdoctor.model.note import Note
from perfdoctor.render.notes import all_worded
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
    assert all_worded(found)[0].startswith("device 2 was lost while the script ran")


def test_a_device_that_came_back_or_cannot_tell_is_not_lost():
    assert told({0: rows("the device is lost", None), 1: rows("not available for a MIG instance")}) == []
    assert told({0: ({"t_ns": 1, "reasons": None},), 1: ()}) == []
