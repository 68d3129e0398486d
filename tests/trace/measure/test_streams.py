from __future__ import annotations

from perfdoctor.trace.measure.launches import launching_calls
from perfdoctor.trace.measure.streams import streams
from perfdoctor.trace.results import StreamUse
from tests.support.traces import Recording


def found(made: Recording) -> list[StreamUse]:
    trace = made.trace()
    return list(streams(trace, launching_calls(trace)))


def test_a_gap_is_the_hosts_a_kernels_or_another() -> None:
    made = Recording()
    made.launched("a", 0, 5, 10)
    made.launched("b", 30, 35, 40)  # launched after 10: the host's 25
    made.launched("c", 31, 45, 50)  # launched before 40: short, 5
    made.launched("d", 32, 90, 95)  # launched before 50: long, 40
    (use,) = found(made)
    assert (use.count, use.busy_us) == (4, 20.0)
    assert (use.host_wait_us, use.kernel_wait_us, use.other_gap_us) == (25.0, 5.0, 40.0)


def test_a_gap_counts_from_the_latest_end_so_far() -> None:
    made = Recording()
    made.launched("long", 0, 5, 50)
    made.launched("inside", 1, 10, 20)
    made.launched("next", 2, 52, 60)
    (use,) = found(made)
    assert (use.busy_us, use.kernel_wait_us) == (53.0, 2.0)


def test_an_event_without_a_launch_never_waits_for_the_host() -> None:
    made = Recording()
    made.kernel("a", 0, 10)
    made.kernel("b", 100, 110)
    assert found(made)[0].other_gap_us == 90.0


def test_streams_of_devices_are_apart_and_in_any_order_of_the_file() -> None:
    made = Recording()
    made.kernel("late", 20, 30, stream=7)
    made.kernel("early", 0, 5, stream=7)
    made.kernel("other", 0, 40, stream=7, device=1)
    made.kernel("copy engine", 0, 3, stream=20)
    assert [(use.device, use.stream, use.count, use.busy_us) for use in found(made)] == [
        (1, 7, 1, 40.0), (0, 7, 2, 15.0), (0, 20, 1, 3.0),
    ]  # fmt: skip
