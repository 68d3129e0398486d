from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.link import AllReduce, fitted
from tests.support import nets


def test_a_line_is_found_again() -> None:
    law = fitted(nets.exchanges(1e-4, 1e9))
    assert law.latency_s == pytest.approx(1e-4)
    assert law.seconds_per_byte == pytest.approx(1e-9)
    assert law.error == pytest.approx(0.0, abs=1e-9)


def test_small_sizes_count_as_much_as_large_ones() -> None:
    scattered = [
        replace(each, seconds=each.seconds * (1.1 if place % 2 else 0.9))
        for place, each in enumerate(nets.exchanges(1e-4, 1e9))
    ]
    law = fitted(scattered)
    assert law.latency_s == pytest.approx(1e-4, rel=0.1)
    assert law.seconds_per_byte == pytest.approx(1e-9, rel=0.1)
    assert law.error == pytest.approx(0.1, abs=0.03)


def test_neither_part_of_the_line_is_below_zero() -> None:
    falling = [AllReduce(size, 1.0 / size, 0.0, 1.0, 9) for size in (4, 16, 64)]
    assert fitted(falling).seconds_per_byte == 0.0
    steep = [AllReduce(size, size**1.5, 0.0, 1.0, 9) for size in (4, 16, 64)]
    assert fitted(steep).latency_s == 0.0


def test_the_bus_carries_what_a_ring_sends() -> None:
    """Each of n ranks sends 2 (n - 1) / n times the bytes: with two ranks as many, with many nearly twice."""
    two, four = nets.LOCAL, nets.REMOTE
    assert two.link_bytes_per_s == pytest.approx(1e9)
    assert four.link_bytes_per_s == pytest.approx(1.5e9)
    assert four.bus_bytes_per_s(four.exchanges[0]) == pytest.approx(1.5 * 4 / four.exchanges[0].seconds)


def test_too_few_sizes_make_no_line() -> None:
    few = replace(nets.LOCAL, exchanges=nets.LOCAL.exchanges[:2])
    assert (few.law, few.link_bytes_per_s) == (None, None)
    small = replace(nets.LOCAL, exchanges=nets.LOCAL.exchanges[:9])
    assert (small.exchanges[-1].bytes, small.law) == (4**9, None)
