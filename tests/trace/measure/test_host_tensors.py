from __future__ import annotations

import pytest

from perfdoctor.trace.measure.measure import measure
from tests.support.traces import Recording


def recorded(
    factory: str = "aten::randn",
    size: str = "[8, 4]",
    between: str = "aten::view",
    shape: tuple[int, ...] = (8, 4),
    name: str = "Memcpy HtoD (Pageable -> Device)",
    loading: bool = False,
    launches: bool = False,
) -> str | None:
    """What made the tensor that an operator copies at 40 us."""
    made = Recording()
    made.kernel("k", 0, 5)
    made.op(factory, 10, 20, shapes=[()], values=[size])
    made.op("aten::normal_", 12, 19, shapes=[(8, 4)])
    made.op(between, 22, 24)
    made.op("aten::to", 40, 60, shapes=[shape], types=["float"])
    made.call("cudaMemcpyAsync", 45, 46, correlation=1)
    made.copy(name, 47, 50, correlation=1, bytes=128)
    if loading:
        made.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 8, 30)
    if launches:
        made.launched("fill", 13, 14, 15)
    (site,) = measure(made.trace()).sites
    return site.made_by


def test_an_operator_that_makes_as_many_elements_just_before_made_the_tensor() -> None:
    assert recorded() == "aten::randn"


def test_making_it_counts_as_idle_time_of_the_copy() -> None:
    made = Recording()
    made.kernel("k", 0, 5)
    made.op("aten::zeros", 10, 20, shapes=[()], values=["[3]"])
    made.op("aten::to", 22, 60, shapes=[(3,)])
    made.call("cudaMemcpyAsync", 45, 46, correlation=1)
    made.copy("Memcpy HtoD (Pageable -> Device)", 47, 50, correlation=1, bytes=12)
    assert measure(made.trace()).sites[0].idle_us == 47.0


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"size": "[3]"}, id="another-size"),
        pytest.param({"shape": ()}, id="no-shape-was-recorded"),
        pytest.param({"between": "aten::mul"}, id="computed-in-between"),
        pytest.param({"factory": "aten::stack"}, id="made-of-data"),
        pytest.param({"loading": True}, id="part-of-a-batch"),
        pytest.param({"launches": True}, id="made-on-the-device"),
        pytest.param({"name": "Memcpy DtoH (Device -> Pageable)"}, id="copied-to-the-host"),
    ],
)
def test_nothing_made_it(given: dict[str, object]) -> None:
    assert recorded(**given) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size_bytes", "took_us", "made"),
    [
        pytest.param(1 << 20, 400, True, id="as-long-as-it-takes"),
        pytest.param(1 << 20, 10, False, id="in-less-time-than-any-core-writes-it"),
        pytest.param(1 << 15, 400, False, id="too-small-to-tell"),
    ],
)
def test_without_shapes_the_time_tells_whether_it_can_be_that_tensor(
    size_bytes: int, took_us: int, made: bool
) -> None:
    trace = Recording()
    trace.kernel("k", 0, 5)
    trace.op("aten::randn", 10, 10 + took_us)
    trace.op("aten::normal_", 12, 9 + took_us)
    trace.op("aten::to", 20 + took_us, 60 + took_us)
    trace.call("cudaMemcpyAsync", 25 + took_us, 26 + took_us, correlation=1)
    trace.copy(
        "Memcpy HtoD (Pageable -> Device)", 27 + took_us, 50 + took_us, correlation=1, bytes=size_bytes
    )
    assert measure(trace.trace()).sites[0].made_by == ("aten::randn" if made else None)
