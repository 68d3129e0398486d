from __future__ import annotations

from perfdoctor.trace.measure.by_thread import ByThread
from tests.support.traces import Recording


def order() -> ByThread:
    made = Recording()
    made.op("b", 20, 30)
    made.op("a", 0, 10)
    made.op("c", 22, 60)
    made.op("elsewhere", 0, 5, thread="other")
    return ByThread(made.trace().ops)


def test_operators_that_are_over_come_by_begin_whatever_their_order_in_the_file() -> None:
    assert order().before(0, 40_000, 8).tolist() == [1, 0]
    assert order().before(0, 25_000, 1).tolist() == []  # the last that began is not over


def test_those_between_two_points_in_time_begin_and_end_there() -> None:
    assert order().between(0, 0, 30_000).tolist() == [1, 0]
    assert order().between(0, 1_000, 60_000).tolist() == [0, 2]


def test_every_thread_has_its_own() -> None:
    assert order().before(1, 40_000, 8).tolist() == [3]
