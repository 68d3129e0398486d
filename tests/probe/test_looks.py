from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from perfdoctor.probe.looks import Looks
from perfdoctor.probe.session import PULSE_NS


def test_it_looks_at_powers_of_two_and_once_a_second():
    looks, seen = Looks(), []
    looks.add("test", lambda recorder, loss: seen.append(loss))
    looks.next_ns = PULSE_NS
    for number in range(1, 101):
        looks.before_backward(SimpleNamespace(since=0), number)
    assert seen == [2, 4, 8, 16, 32, 64]
    looks.before_backward(SimpleNamespace(since=3 * PULSE_NS), 101)
    looks.before_backward(SimpleNamespace(since=3 * PULSE_NS + 1), 102)
    assert seen[6:] == [101]


def test_a_looker_that_fails_ends_its_own_part_only():
    looks, seen = Looks(), []

    def fail(recorder, loss):
        raise ValueError("broken")

    looks.add("a looker of this test", fail)
    looks.add("test", lambda recorder, loss: seen.append(loss))
    looks.next_ns = PULSE_NS
    for number in range(1, 5):
        looks.before_backward(SimpleNamespace(since=0), number)
    assert seen == [2, 4]
