"""Nesting against a stack that walks through the events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfdoctor.trace.measure import nesting
from perfdoctor.trace.measure.nesting import forests, innermost
from perfdoctor.trace.parse.columns import UNKNOWN, HostEvents

# A tree as nested lists; each node takes what its children take and a little more.
trees = st.recursive(st.just([]), lambda children: st.lists(children, max_size=4), max_leaves=30)


def flat(tree: list[Any], begin: int, gap: int) -> tuple[list[tuple[int, int, int]], int]:
    """(begin, end, depth) of every node, children after parents; and where the tree ends."""
    rows: list[tuple[int, int, int]] = []
    end = begin + gap
    for child in tree:
        inner, end = flat(child, end, gap)
        rows += [(first, last, depth + 1) for first, last, depth in inner]
        end += gap
    return [(begin, end + 1, 0), *rows], end + 1


def host(rows: list[tuple[int, int]], threads: list[int] | None = None) -> HostEvents:
    begin = np.array([begin for begin, _ in rows], np.int64)
    end = np.array([end for _, end in rows], np.int64)
    thread = np.array(threads or [0] * len(rows), np.uint16)
    return HostEvents(begin, end - begin, np.zeros(len(rows), np.uint32), thread)


def around(rows: list[tuple[int, int]], at: int) -> int:
    """The shortest event around a moment, by brute force."""
    inside = [(end - begin, -begin, row) for row, (begin, end) in enumerate(rows) if begin <= at < end]
    return min(inside)[2] if inside else UNKNOWN


@settings(deadline=None)
@given(trees, st.integers(0, 2), st.randoms(use_true_random=False))
def test_the_innermost_event_is_the_shortest_around(tree: list[Any], gap: int, random: Any) -> None:
    rows = [(begin, end) for begin, end, _ in flat(tree, 5, gap)[0]]
    random.shuffle(rows)
    events, times = host(rows), np.arange(0, max(end for _, end in rows) + 3)
    found = innermost(events, None, np.zeros(len(times), np.uint16), times)
    lengths = [rows[row][1] - rows[row][0] if row != UNKNOWN else None for row in found.tolist()]
    expected = [around(rows, int(time)) for time in times]
    assert lengths == [rows[row][1] - rows[row][0] if row != UNKNOWN else None for row in expected]


@settings(deadline=None)
@given(trees, st.integers(1, 2))
def test_own_times_add_up_to_the_time_of_the_outermost(tree: list[Any], gap: int) -> None:
    rows = flat(tree, 0, gap)[0]
    own = sum(
        int(forest.self_ns().sum()) for forest in forests(host([(begin, end) for begin, end, _ in rows]))
    )
    assert own == sum(end - begin for begin, end, depth in rows if depth == 0)


def test_cutting_into_pieces_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        row
        for start in range(0, 400, 10)
        for row in ((start, start + 9), (start + 1, start + 4), (start + 2, start + 3))
    ]
    whole = [forest.self_ns().tolist() for forest in forests(host(rows))]
    monkeypatch.setattr(nesting, "PIECE", 7)
    pieces = list(forests(host(rows)))
    assert len(pieces) > 5
    assert [ns for forest in pieces for ns in forest.self_ns().tolist()] == whole[0]


def test_threads_do_not_see_each_other() -> None:
    events = host([(0, 10), (2, 4)], threads=[0, 1])
    found = innermost(events, None, np.array([0, 1, 1]), np.array([3, 3, 5]))
    assert found.tolist() == [0, 1, UNKNOWN]


def test_only_the_chosen_events_count() -> None:
    events = host([(0, 10), (2, 8), (3, 6)])
    assert innermost(events, np.array([0, 2]), np.zeros(2), np.array([4, 7])).tolist() == [2, 0]


def test_a_child_that_ends_after_its_parent_still_has_one() -> None:
    # Time stamps of whole microseconds: (2, 11) ends after (1, 10), and (12, 14) lies in (10, 20).
    (forest,) = forests(host([(0, 30), (1, 10), (2, 11), (10, 20), (12, 14)]))
    parents = [forest.rows[place] if place != UNKNOWN else UNKNOWN for place in forest.parent]
    assert parents == [UNKNOWN, 0, 1, 2, 3]


def test_the_outermost_event_is_at_the_top() -> None:
    (forest,) = forests(host([(0, 10), (2, 8), (3, 6), (12, 15)]))
    place = forest.innermost(np.array([4, 13, 11]))
    assert forest.outermost(place).tolist() == [0, 3, UNKNOWN]
