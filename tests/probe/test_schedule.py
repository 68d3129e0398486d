from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from perfdoctor.probe.schedule import SamplingSchedule
from perfdoctor.probe.session import PULSE_NS


def test_it_samples_at_powers_of_two_and_once_a_second():
    schedule, seen = SamplingSchedule(), []
    schedule.add("test", lambda recorder, loss: seen.append(loss))
    schedule.next_ns = PULSE_NS
    for number in range(1, 101):
        schedule.before_backward(SimpleNamespace(since=0), number)
    assert seen == [2, 4, 8, 16, 32, 64]
    schedule.before_backward(SimpleNamespace(since=3 * PULSE_NS), 101)
    schedule.before_backward(SimpleNamespace(since=3 * PULSE_NS + 1), 102)
    assert seen[6:] == [101]


def test_a_sample_that_fails_ends_its_own_part_only():
    schedule, seen = SamplingSchedule(), []

    def fail(recorder, loss):
        raise ValueError("broken")

    schedule.add("a looker of this test", fail)
    schedule.add("test", lambda recorder, loss: seen.append(loss))
    schedule.next_ns = PULSE_NS
    for number in range(1, 5):
        schedule.before_backward(SimpleNamespace(since=0), number)
    assert seen == [2, 4]
