from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.note import Note
from perfdoctor.trace.lost import LOST, lost_work
from tests.support.rank_traces import host_only, rank


@pytest.mark.parametrize("why", LOST)
def test_a_note_says_why_the_devices_work_is_missing(why):
    assert lost_work(replace(host_only(), notes=(Note("no-shapes"), why))) == why


def test_a_trace_of_the_cpu_has_lost_nothing():
    assert lost_work(replace(host_only(), notes=(Note("no-device-events"),))) is None
    assert lost_work(rank()) is None
