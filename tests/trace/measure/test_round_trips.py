from __future__ import annotations

from typing import Any

import pytest

from perfdoctor.model.measured import Location
from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.results import RoundTrip
from tests.support.traces import Recording

OUT, BACK = "Memcpy DtoH (Device -> Pageable)", "Memcpy HtoD (Pageable -> Device)"


def copied(made: Recording, begin: float, number: int, name: str, size: int) -> None:
    """An operator of 10 us that copies for 4, from 5 us after its begin on."""
    made.op("aten::to", begin, begin + 10)
    made.call("cudaMemcpyAsync", begin + 3, begin + 4, correlation=number)
    made.copy(name, begin + 5, begin + 9, correlation=number, bytes=size)


def trip(size: int = 4096, returned: int = 4096) -> Recording:
    """Out at 10 us, back at 60 us; the device computes until 12 us."""
    made = Recording()
    made.kernel("k", 0, 12)
    made.function("train.py(3): step", 0, 200)
    copied(made, 10, 1, OUT, size)
    copied(made, 60, 2, BACK, returned)
    return made


def round_trips(made: Recording) -> tuple[RoundTrip, ...]:
    return measure(made.trace()).round_trips


def test_a_tensor_that_comes_back_next_leaves_the_device_idle_in_between() -> None:
    (found,) = round_trips(trip())
    assert (found.same, found.count, found.bytes, found.us, found.exposed_us) == (True, 1, 4096, 60.0, 8.0)
    assert found.idle_us == 60 - 2 - 8  # less the kernel's end and the two copies
    assert found.out_at == found.back_at == Location("train.py", 3, "step")


def test_what_operators_do_to_it_on_the_host_is_told_apart() -> None:
    made = trip(returned=2048)
    made.op("aten::sort", 25, 50)
    made.op("aten::copy_", 30, 40)
    (found,) = round_trips(made)
    assert (found.same, found.computing_us, found.computing) == (False, 25.0, ("aten::sort", "aten::copy_"))


def test_trips_of_one_kind_are_added_up() -> None:
    made = trip()
    made.launched("k", 90, 92, 99)
    copied(made, 110, 3, OUT, 4096)
    copied(made, 130, 4, BACK, 4096)
    (found,) = round_trips(made)
    assert (found.count, found.bytes) == (2, 8192)


def with_launch(made: Recording) -> None:
    made.launched("k", 30, 31, 35)


def with_loader(made: Recording) -> None:
    made.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 30, 40)


def with_border(made: Recording) -> None:
    made.mark("ProfilerStep#1", 0, 40)
    made.mark("ProfilerStep#2", 40, 100)


@pytest.mark.parametrize(
    ("made", "change"),
    [
        pytest.param(trip(size=4, returned=4), None, id="a-loss-that-is-read"),
        pytest.param(trip(returned=1_000_000), None, id="a-batch-follows-predictions"),
        pytest.param(trip(), with_launch, id="something-else-was-launched"),
        pytest.param(trip(), with_loader, id="another-batch-was-loaded"),
        pytest.param(trip(), with_border, id="the-next-step"),
    ],
)
def test_this_is_no_detour(made: Recording, change: Any) -> None:
    if change:
        change(made)
    assert round_trips(made) == ()
