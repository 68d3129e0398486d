from __future__ import annotations

import pytest

from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.results import RankTrace
from tests.support.traces import Recording

COPY = "Memcpy HtoD (Pinned -> Device)"


def recorded(marked: bool = True) -> RankTrace:
    """Three equal steps of 100 us, of which the first warms up and has no mark; the device is late by 60."""
    made = Recording()
    for number, begin in enumerate((0, 100, 200)):
        if marked and number:
            made.mark(f"ProfilerStep#{number}", begin, begin + 100)
        made.op("aten::mm", begin + 10, begin + 30, shapes=((64, 96), (96, 16)), types=("float", "float"))
        made.launched("ampere_sgemm_128x64_nn", begin + 15, begin + 80, begin + 110)
        made.call("cudaMemcpyAsync", begin + 40, begin + 41, correlation=5 + number)
        made.copy(COPY, begin + 110, begin + 120, correlation=5 + number, bytes=64)
        made.call("cudaStreamSynchronize", begin + 50, begin + 60)
    return measure(made.trace())


def counts(found: RankTrace) -> list[int]:
    lists = (found.ops, found.kernels, found.matrices, found.work, found.copies, found.blocking)
    return [use.count for uses in lists for use in uses if use.count]  # type: ignore[attr-defined]


def test_what_is_listed_is_of_the_marked_steps_by_launch_and_not_by_when_it_ran() -> None:
    found = recorded()
    assert set(counts(found)) == {2}
    assert {use.kind.value: (use.count, use.us) for use in found.classes} == {
        "matmul": (2, 60.0), "copy": (2, 20.0)
    }  # fmt: skip
    assert found.ops[0].device_us == pytest.approx(60)


def test_the_rest_is_of_the_whole_file() -> None:
    found = recorded()
    assert (found.times, found.sync_us, found.device_events) == (recorded(marked=False).times, 30.0, 6)


def test_without_steps_everything_counts() -> None:
    assert set(counts(recorded(marked=False))) == {3}


def test_of_what_was_launched_by_nobody_knows_whom_counts_what_ran_in_a_step() -> None:
    made = Recording()
    made.mark("ProfilerStep#1", 100, 200)
    made.kernel("a", 50, 60)
    made.kernel("a", 150, 160)
    assert [use.count for use in measure(made.trace()).kernels] == [1]
