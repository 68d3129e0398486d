from __future__ import annotations

from perfdoctor.model.measured import Location
from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.results import CopySite
from tests.support.traces import Recording

PINNED = "Memcpy HtoD (Pinned -> Device)"
OUT = "Memcpy DtoH (Device -> Pageable)"


def copied(
    made: Recording, begin: float, number: int, name: str = PINNED, size: int = 4000, **given: object
) -> None:
    """An operator of 10 us that copies for 4, from 5 us after its begin on."""
    made.op(str(given.pop("op", "aten::to")), begin, begin + 10, **given)  # type: ignore[arg-type]
    made.call("cudaMemcpyAsync", begin + 3, begin + 4, correlation=number)
    made.copy(name, begin + 5, begin + 9, correlation=number, bytes=size)


def sites(made: Recording) -> tuple[CopySite, ...]:
    return measure(made.trace()).sites


def test_a_place_is_told_by_direction_memory_operator_line_and_type() -> None:
    made = Recording()
    made.kernel("k", 0, 100)
    copied(made, 10, 1, shapes=[(8, 3)], types=["float"], stack=("train.py(7): main",))
    copied(made, 30, 2, shapes=[(8, 3)], types=["float"], stack=("train.py(7): main",))
    copied(made, 50, 3, shapes=[(8,)], types=["long int"], stack=("train.py(7): main",))
    copied(made, 70, 4, name=OUT)
    found = [(site.direction, site.host_memory, site.dtype, site.shape, site.count) for site in sites(made)]
    assert found == [
        ("HtoD", "pinned", "float32", (8, 3), 2), ("HtoD", "pinned", "int64", (8,), 1),
        ("DtoH", "pageable", None, (), 1),
    ]  # fmt: skip
    assert sites(made)[0].at == Location("train.py", 7, "main")
    assert (sites(made)[0].bytes, sites(made)[0].us) == (8000, 8.0)


def test_computing_hides_a_copy_and_a_busy_device_does_not_wait_for_it() -> None:
    made = Recording()
    made.kernel("k", 0, 17)  # of the copy, from 15 to 19, the half
    copied(made, 10, 1)
    (site,) = sites(made)
    assert (site.exposed_us, site.idle_us) == (2.0, 1.0)  # idle from 19 to 20


def test_copies_of_one_operator_share_the_time_that_the_device_waits_for_it() -> None:
    made = Recording()
    made.kernel("k", 0, 10)
    made.op("aten::_foreach_copy_", 10, 70)
    for number in range(4):
        made.call("cudaMemcpyAsync", 12 + 10 * number, 13 + 10 * number, correlation=1 + number)
        made.copy(PINNED, 15 + 10 * number, 20 + 10 * number, correlation=1 + number, bytes=4000)
    (site,) = sites(made)
    assert (site.count, site.us, site.idle_us) == (4, 20.0, 40.0)


def test_where_steps_are_marked_only_they_count() -> None:
    made = Recording()
    made.mark("ProfilerStep#1", 0, 25)
    made.kernel("k", 0, 100)
    copied(made, 10, 1)
    copied(made, 30, 2)
    assert [site.count for site in sites(made)] == [1]


def test_the_source_of_a_copy_in_place_is_its_second_input() -> None:
    made = Recording()
    made.kernel("k", 0, 100)
    copied(made, 10, 1, op="aten::copy_", shapes=[(2,), (2,)], types=["c10::Half", "float"])
    assert sites(made)[0].dtype == "float32"


def test_copies_within_the_device_have_no_place() -> None:
    made = Recording()
    copied(made, 10, 1, name="Memcpy DtoD (Device -> Device)")
    assert sites(made) == ()
