from __future__ import annotations

import pytest

from perfdoctor.facts.device.small_copies import many_small
from tests.support import facts
from tests.support.rank_traces import copy, site

BATCHES = copy("HtoD", "pageable", 50)
SMALL = site(count=40, size=1_000)


def test_they_are_told_by_place_and_apart_from_large_ones() -> None:
    assert many_small(facts.copies(BATCHES, sites=(site(count=5), SMALL))) == [SMALL]


def test_without_places_by_the_memory_they_come_from() -> None:
    uses = (
        copy("HtoD", "pinned", 1, count=40, size=65_535),
        copy("HtoD", "pageable", 1, count=40, size=65_536),
    )
    assert many_small(facts.copies(*uses)) == [uses[0]]


@pytest.mark.parametrize("way", ["HtoD", "DtoH"])
def test_each_direction_is_counted_by_itself(way: str) -> None:
    few = site(way, count=39, size=1_000)
    assert not many_small(facts.copies(BATCHES, sites=(few,)))
    there, back = site("HtoD", count=39, size=1_000), site("DtoH", count=39, size=1_000)
    assert not many_small(facts.copies(BATCHES, sites=(there, back)))
