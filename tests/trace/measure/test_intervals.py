"""Interval arithmetic against counting every nanosecond by hand."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from perfdoctor.trace.measure.intervals import NOTHING, Spans, either, overlapping, union

FAR = 40
# Equal stamps, no duration, negative durations and nested events all occur in so small a range.
events = st.lists(st.tuples(st.integers(0, FAR), st.integers(-5, 12)), max_size=12)
moments = st.integers(-3, FAR + 15)


def spans(rows: list[tuple[int, int]]) -> Spans:
    begin = np.array([begin for begin, _ in rows], np.int64)
    return union(begin, begin + np.array([length for _, length in rows], np.int64))


def covered(rows: list[tuple[int, int]]) -> set[int]:
    return {moment for begin, length in rows for moment in range(begin, begin + length)}


def moments_of(found: Spans) -> set[int]:
    return {moment for begin, end in zip(found.begin, found.end, strict=True) for moment in range(begin, end)}


@settings(deadline=None)
@given(events)
def test_a_union_covers_what_its_events_cover_and_is_disjoint_and_sorted(rows: list[tuple[int, int]]) -> None:
    found = spans(rows)
    assert moments_of(found) == covered(rows)
    assert found.total_ns == len(covered(rows))
    assert (found.end > found.begin).all()
    assert (found.begin[1:] > found.end[:-1]).all()


@settings(deadline=None)
@given(events, moments, moments)
def test_what_lies_within_a_window_is_counted(rows: list[tuple[int, int]], one: int, other: int) -> None:
    begin, end = min(one, other), max(one, other)
    assert spans(rows).within(begin, end) == len(covered(rows) & set(range(begin, end)))


@settings(deadline=None)
@given(events)
def test_many_time_stamps_at_once_give_what_each_gives_alone(rows: list[tuple[int, int]]) -> None:
    found, times = spans(rows), np.arange(-3, FAR + 15)
    assert found.before(times).tolist() == [int(found.before(int(time))) for time in times]


@settings(deadline=None)
@given(events, st.integers(1, FAR))
def test_time_stamps_are_told_to_be_inside_or_not(rows: list[tuple[int, int]], part: int) -> None:
    times = np.arange(-3, FAR + 15)
    with patch("perfdoctor.trace.measure.intervals.PART", part):
        held = spans(rows).hold(times)
    assert set(times[held].tolist()) == covered(rows)


@settings(deadline=None)
@given(events, events)
def test_difference_and_sum_are_those_of_sets(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    assert moments_of(spans(one).minus(spans(other))) == covered(one) - covered(other)
    assert moments_of(either(spans(one), spans(other))) == covered(one) | covered(other)
    overlap = spans(one).total_ns + spans(other).total_ns - either(spans(one), spans(other)).total_ns
    assert overlap == len(covered(one) & covered(other))


@settings(deadline=None)
@given(events)
def test_gaps_fill_the_union_up(rows: list[tuple[int, int]]) -> None:
    found = spans(rows)
    between = moments_of(found.gaps()) if len(found) else set()
    assert between == (
        set(range(min(covered(rows)), max(covered(rows)))) - covered(rows) if covered(rows) else set()
    )


def test_epoch_nanoseconds_are_exact() -> None:
    begin = np.array([1_695_835_572_943_613_001, 1_695_835_572_943_613_004], np.int64)
    assert union(begin, begin + 2).total_ns == 4


def test_nothing_has_no_length() -> None:
    assert (NOTHING.total_ns, int(NOTHING.before(5)), len(NOTHING.minus(NOTHING))) == (0, 0, 0)


def test_a_crowd_is_where_two_or_more_overlap() -> None:
    spans = overlapping(np.array([0, 5, 8, 20]), np.array([10, 9, 12, 30]))
    assert (spans.begin.tolist(), spans.end.tolist()) == ([5], [10])
    assert overlapping(np.array([0, 10]), np.array([10, 20])).total_ns == 0
