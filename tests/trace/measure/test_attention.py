from __future__ import annotations

from perfdoctor.model.measured import Location
from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.results import AttentionUse
from tests.support.traces import Recording

SCORES = [(4, 16, 8), (4, 8, 32)]  # 4 heads, 16 queries, 32 keys
VALUES = [(4, 16, 32), (4, 32, 8)]


def written(
    made: Recording, at: float = 0.0, values: object = VALUES, softmax: str = "aten::_softmax"
) -> None:
    """Product, scaling, softmax, product: 10 us each on the host; on the device 3, 5, 7 and 2."""
    made.op("aten::bmm", at, at + 9, shapes=SCORES)
    made.launched("gemm", at + 1, at + 2, at + 5)
    made.op("aten::mul", at + 10, at + 19)
    made.launched("mul", at + 11, at + 12, at + 17)
    made.op(softmax, at + 20, at + 29)
    made.launched("softmax", at + 21, at + 22, at + 29)
    made.op("aten::bmm", at + 30, at + 39, shapes=values)  # type: ignore[arg-type]
    made.launched("gemm", at + 31, at + 32, at + 34)


def attention(made: Recording) -> list[AttentionUse]:
    return list(measure(made.trace()).attention)


def test_a_softmax_between_two_products_that_fit_is_attention() -> None:
    made = Recording()
    made.function("train.py(3): attend", 0, 200)
    written(made)
    written(made, at=100)
    (found,) = attention(made)
    assert (found.heads, found.queries, found.keys, found.count) == (4, 16, 32, 2)
    assert (found.between_us, found.products_us) == (24.0, 10.0)
    assert (found.at, found.backward) == (Location("train.py", 3, "attend"), False)


def test_products_of_other_sizes_are_none() -> None:
    made = Recording()
    written(made, values=[(4, 16, 7), (4, 7, 8)])
    assert attention(made) == []


def test_a_routers_softmax_between_the_products_of_experts_is_none() -> None:
    for shape, count in (((8, 2), 0), ((4, 16, 32), 1), ((2, 2, 16, 32), 1)):
        made = Recording()
        made.op("aten::bmm", 0, 9, shapes=SCORES)
        made.op("aten::_softmax", 10, 19, shapes=[shape])
        made.op("aten::bmm", 20, 29, shapes=VALUES)
        assert len(attention(made)) == count


def test_without_shapes_the_order_decides() -> None:
    made = Recording()
    made.op("aten::bmm", 0, 9)
    made.op("aten::_softmax", 10, 19)
    made.launched("softmax", 11, 12, 18)
    made.op("aten::bmm", 20, 29)
    (found,) = attention(made)
    assert (found.queries, found.between_us) == (None, 6.0)


def test_its_gradient_is_told_apart_and_has_two_products_on_each_side() -> None:
    made = Recording()
    made.op("aten::bmm", -10, -1, shapes=SCORES)
    made.launched("gemm", -9, -8, -7)
    written(made, softmax="aten::_softmax_backward_data", values=[(4, 8, 16), (4, 16, 32)])
    made.op("aten::bmm", 40, 49, shapes=SCORES)
    made.launched("gemm", 41, 42, 46)
    (found,) = attention(made)
    assert (found.backward, found.queries) == (True, None)
    assert (found.between_us, found.products_us) == (12.0, 10.0)


def test_a_softmax_with_a_single_product_is_a_classifier() -> None:
    made = Recording()
    made.op("aten::bmm", 0, 9)
    made.op("aten::_softmax", 10, 19)
    assert attention(made) == []


def test_without_a_device_operators_on_the_host_are_timed() -> None:
    made = Recording()
    made.op("aten::bmm", 0, 9, shapes=SCORES)
    made.op("aten::_softmax", 12, 20)
    made.op("aten::bmm", 20, 29, shapes=VALUES)
    (found,) = attention(made)
    assert (found.between_us, found.products_us) == (8.0, 18.0)


def test_where_steps_are_marked_only_they_count() -> None:
    made = Recording()
    made.mark("ProfilerStep#1", 0, 60)
    written(made)
    written(made, at=100)
    assert [use.count for use in attention(made)] == [1]


def gradient(made: Recording, at: float) -> None:
    written(made, at, softmax="aten::_softmax_backward_data", values=[(4, 8, 16), (4, 16, 32)])


OWN = "aten::scaled_dot_product_attention"


def test_what_torchs_own_attention_materialises_is_not_written_out() -> None:
    made = Recording()
    made.op(OWN, 0, 50)
    made.op("aten::_scaled_dot_product_attention_math", 0.1, 49)
    written(made, at=1)
    made.op(OWN, 100, 150)
    written(made, at=101)
    gradient(made, 200)
    gradient(made, 300)
    assert attention(made) == []


def test_beside_torchs_own_what_is_written_out_is_found_with_its_gradient() -> None:
    made = Recording()
    made.op(OWN, 0, 50)
    written(made, at=1)
    made.function("train.py(3): attend", 90, 145)
    written(made, at=100)
    gradient(made, 200)  # of the later one
    made.function("train.py(9): train", 290, 345)
    gradient(made, 300)
    found = attention(made)
    assert [(use.backward, use.count) for use in found] == [(False, 1), (True, 1)]
    assert found[0].at == Location("train.py", 3, "attend")
    assert found[1].at is None


def test_a_pass_without_a_gradient_leaves_that_of_torchs_own_to_it() -> None:
    made = Recording()
    for at in (0, 100, 200):
        made.op(OWN, at, at + 50)
        written(made, at=at + 1)
    gradient(made, 300)
    assert attention(made) == []
