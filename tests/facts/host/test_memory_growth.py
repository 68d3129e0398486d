from __future__ import annotations

import pytest

from perfdoctor.facts.host.memory_growth import memory_growth
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.model.missing import Missing
from tests.support.records import MS, rows, update

SPAN = MeasuredSpan.of(find(rows([update(10)] * 100)))  # one second


def samples(held, key="anonymous_bytes"):
    """What the training process holds, read ten times a second."""
    return [
        {"t_ns": (1000 + n * 100) * MS, "procs": [{"role": "main", "pid": 1, key: size}]}
        for n, size in enumerate(held)
    ]


@pytest.mark.parametrize("key", ["anonymous_bytes", "private_bytes"])
def test_bytes_are_spread_over_the_steps(key):
    held = [10**9 + 10**6 * n for n in range(11)]
    assert memory_growth(samples(held, key), {}, SPAN).host_bytes_per_step == pytest.approx(1e5)


def test_growth_while_the_run_settles_does_not_count():
    held = [10**8, 5 * 10**8, *[10**9] * 9]
    assert memory_growth(samples(held), {}, SPAN).host_bytes_per_step == 0


def test_a_few_readings_far_off_do_not_count():
    held = [10**9, 10**9, 10**9, 10**9, 3 * 10**9, 10**9, 10**9, 10**9, 10**9, 10**9, 3 * 10**9]
    assert memory_growth(samples(held), {}, SPAN).host_bytes_per_step == 0


def test_devices_are_added_up():
    gpu = [{"t_ns": (1000 + n * 100) * MS, "memory_used_bytes": 10**9 + 10**6 * n} for n in range(11)]
    found = memory_growth([], {0: gpu, 1: gpu}, SPAN)
    assert found.host_bytes_per_step is None
    assert found.device_bytes_per_step == pytest.approx(2e5)


def test_too_few_readings_tell_nothing():
    assert isinstance(memory_growth(samples([10**9] * 4), {}, SPAN), Missing)
