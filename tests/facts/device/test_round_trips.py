from __future__ import annotations

from perfdoctor.facts.device.round_trips import for_anything_else, for_operators
from tests.support.rank_traces import round_trip

SORTED = round_trip(idle=50, computing=25, same=False)
IN_NUMPY = round_trip(idle=50, computing=24)
SOMETHING_ELSE = round_trip(idle=50, same=False)


def test_what_took_most_of_the_time_at_the_host_is_what_they_went_for() -> None:
    trips = (SORTED, IN_NUMPY, SOMETHING_ELSE)
    assert for_operators(trips, steps=5) == [SORTED]
    assert for_anything_else(trips, steps=5) == [IN_NUMPY]


def test_those_that_not_every_step_makes_are_left_out() -> None:
    assert not for_operators((SORTED,), steps=6)
    assert not for_anything_else((IN_NUMPY,), steps=6)
    assert for_anything_else((IN_NUMPY,), steps=None)
    assert not for_anything_else((round_trip(count=4),), steps=None)
