from __future__ import annotations

from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.results import HostWork
from tests.support.traces import Recording

A, B = (4, 8), (8, 16)
FLOPS = 2.0 * 4 * 8 * 16


def host_work(made: Recording) -> list[HostWork]:
    made.mark("ProfilerStep#1", 0, 1000)
    return list(measure(made.trace()).host_work)


def test_a_product_has_the_time_of_all_that_it_calls() -> None:
    made = Recording()
    made.op("aten::matmul", 10, 50, shapes=[A, B])
    made.op("aten::mm", 20, 40, shapes=[A, B])
    assert host_work(made) == [HostWork("aten::matmul", 1, 40.0, FLOPS)]


def test_other_operators_have_their_own_time() -> None:
    made = Recording()
    made.op("aten::mean", 100, 130)
    made.op("aten::sum", 110, 120)
    made.op("aten::mm", 200, 204, shapes=[A, B])
    made.op("aten::mm", 210, 213, shapes=[A, B])
    assert host_work(made) == [
        HostWork("aten::mean", 1, 20.0, None),
        HostWork("aten::sum", 1, 10.0, None),
        HostWork("aten::mm", 2, 7.0, FLOPS),
    ]


def test_a_call_that_was_interrupted_counts_as_any_other() -> None:
    made = Recording()
    for begin, end in ((0, 4), (10, 14), (20, 520)):
        made.op("aten::relu", begin, end, shapes=[A])
    assert host_work(made) == [HostWork("aten::relu", 3, 12.0, None)]


def test_updates_loading_and_what_lies_between_steps_are_left_out() -> None:
    made = Recording()
    made.mark("Optimizer.step#SGD.step", 100, 200)
    made.op("aten::add_", 110, 120)
    made.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 300, 400)
    made.op("aten::stack", 310, 320)
    made.op("aten::mm", 2000, 2004, shapes=[A, B])
    made.op("aten::relu", 500, 503, shapes=[A])
    assert host_work(made) == [HostWork("aten::relu", 1, 3.0, None)]


def test_without_shapes_nothing_is_told() -> None:
    made = Recording()
    made.op("aten::mm", 200, 204)
    assert host_work(made) == []


def test_a_device_does_the_work_in_the_hosts_place() -> None:
    made = Recording()
    made.op("aten::mm", 200, 204, shapes=[A, B])
    made.launched("gemm", 201, 205, 210)
    assert host_work(made) == []
