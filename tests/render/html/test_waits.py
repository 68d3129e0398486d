from __future__ import annotations

import pytest

from perfdoctor.model.ranks import WaitsOverTime
from perfdoctor.render.html.waits import RANKS, waits

TWO = WaitsOverTime(
    (0, 1), (0.0, 10.0, 20.0, 40.0), ((0.5, 0.45, 0.0), (0.0, 0.0, 0.1)), ((0, 0, 0), (0.5, 0.45, 0))
)


def test_stretches_of_equal_strength_are_one_and_where_nothing_is_waited_there_is_none():
    first, second = waits(TWO).strips
    (part,) = first.waited
    assert (part.left, part.width, part.style) == (0.0, 50.0, "waits4")
    assert part.name == "waits for others 48% of the time from 0 s to 20 s"
    assert first.awaited == ()
    assert [(part.left, part.style) for part in second.waited] == [(50.0, "waits2")]
    assert [part.style for part in second.awaited] == ["awaited4"]


def test_a_strip_says_in_words_what_it_shows():
    first, second = waits(TWO).strips
    assert first.told == "It waits 24% of the time, and is waited for 0% of it."
    assert second.told == "It waits 5% of the time, and is waited for 24% of it."


def test_of_many_ranks_those_that_matter_have_a_strip_in_order():
    count = RANKS + 3
    shares = tuple((0.9 if rank in (0, count - 1) else 0.0,) for rank in range(count))
    drawn = waits(WaitsOverTime(tuple(range(count)), (0.0, 9.0), shares, shares))
    assert (len(drawn.strips), drawn.left_out) == (RANKS, 3)
    assert (drawn.strips[0].name, drawn.strips[-1].name) == ("rank 0", f"rank {count - 1}")


@pytest.mark.parametrize("edges_s", [(0.0, 0.0), (0.0, 1.0)])
def test_a_moment_without_length_is_drawn_as_nothing(edges_s):
    drawn = waits(WaitsOverTime((0, 1), edges_s, ((0.0,), (0.0,)), ((0.0,), (0.0,))))
    assert all(strip.waited == strip.awaited == () for strip in drawn.strips)
