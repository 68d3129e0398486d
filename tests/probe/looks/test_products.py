"""What counts as a product with a matrix that is mostly zero."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.looks import diagonals
from perfdoctor.probe.looks.products import COUNTED, LEAST_NS, PRODUCTS, StepProducts

ONE_HOT = torch.eye(64).repeat(4, 1)  # 256 × 64
SPARSE = torch.zeros(128, 128).index_put((torch.arange(128), torch.arange(128).flip(0)), torch.tensor(0.5))
VALUES = torch.randn(64, 8)


def called(step, function, *args, ns=LEAST_NS, **kwargs):
    """Call as the mode does."""
    seen = step.before(function, args, kwargs)
    result = function(*args, **kwargs)
    if seen is not None:
        step.after(seen, result, ns)
    return result


def found(function, *args, **kwargs):
    """The products that one call makes."""
    step = StepProducts(torch)
    called(step, function, *args, **kwargs)
    return [(call.rows, call.columns, call.one_hot) for call in step.found]


@pytest.mark.parametrize(
    ("function", "args"),
    [
        pytest.param(torch.matmul, (ONE_HOT, VALUES), id="matmul"),
        pytest.param(torch.Tensor.__matmul__, (ONE_HOT, VALUES), id="operator"),
        pytest.param(torch.mm, (ONE_HOT.t(), torch.randn(256, 8)), id="transposed"),
        pytest.param(torch.nn.functional.linear, (ONE_HOT, VALUES.t()), id="linear"),
        pytest.param(torch.einsum, ("en,nd->ed", [ONE_HOT, VALUES]), id="einsum-of-a-list"),
        pytest.param(torch.addmm, (torch.zeros(8), ONE_HOT, VALUES), id="addmm"),
        pytest.param(torch.matmul, (VALUES.t(), ONE_HOT.t()), id="second-factor"),
        pytest.param(torch.matmul, (ONE_HOT.flip(1).view(4, 64, 64), VALUES), id="a-stack-of-matrices"),
    ],
)
def test_a_factor_is_one_hot_in_whichever_place(function, args):
    assert found(function, *args) == [(256, 64, True)]


def test_other_matrices_of_zeros_count_and_are_not_one_hot():
    assert found(torch.mm, SPARSE, torch.randn(128, 8)) == [(128, 128, False)]


@pytest.mark.parametrize(
    ("function", "args"),
    [
        pytest.param(torch.mm, (torch.randn(128, 128), torch.randn(128, 8)), id="dense"),
        pytest.param(torch.mm, (torch.randn(128, 128).relu(), torch.randn(128, 8)), id="half-zero"),
        pytest.param(torch.mm, (torch.zeros(128, 128), torch.randn(128, 8)), id="nothing-but-zeros"),
        pytest.param(torch.mm, (SPARSE + SPARSE.roll(1) + SPARSE.roll(2), torch.randn(128, 8)), id="fuller"),
        pytest.param(torch.mm, (SPARSE.clone().requires_grad_(), torch.randn(128, 8)), id="learned"),
        pytest.param(torch.mm, (SPARSE.to_sparse(), torch.randn(128, 8)), id="sparse-already"),
        pytest.param(torch.mm, (torch.eye(32), torch.randn(32, 8)), id="small"),
        pytest.param(torch.mul, (SPARSE, SPARSE), id="by-elements"),
        pytest.param(torch.mm, (torch.eye(128), torch.randn(128, 8)), id="a-diagonal"),
        pytest.param(
            torch.nn.functional.linear, (torch.randn(8, 128), torch.eye(128)), id="a-diagonal-layer"
        ),
        pytest.param(torch.einsum, ("ij,bj->bi", [torch.eye(128), torch.randn(8, 128)]), id="in-a-list"),
        pytest.param(torch.mm, (SPARSE, torch.eye(128)), id="by-a-diagonal"),
        pytest.param(torch.mm, (torch.eye(128) * 2, SPARSE), id="a-diagonal-and-zeros"),
        pytest.param(
            torch.addmm, (SPARSE, torch.randn(128, 8), torch.randn(8, 128)), id="added-to-the-product"
        ),
        pytest.param(torch.matmul, (SPARSE.expand(4, 128, 128), torch.randn(128, 8)), id="would-be-copied"),
    ],
)
def test_is_no_product_with_zeros(function, args):
    assert found(function, *args) == []


def test_of_each_product_that_is_looked_into_diagonals_are_told_elsewhere():
    assert PRODUCTS <= diagonals.PRODUCTS


def test_a_diagonal_that_is_added_to_a_product_with_zeros_does_not_hide_it():
    assert found(torch.addmm, torch.eye(256, 8), ONE_HOT, VALUES) == [(256, 64, True)]
    assert found(torch.addmm, torch.eye(128), SPARSE, torch.randn(128, 128)) == [(128, 128, False)]


def test_a_product_that_takes_no_time_is_not_looked_into():
    assert found(torch.mm, SPARSE, SPARSE, ns=LEAST_NS - 1) == []


def test_making_a_one_hot_matrix_counts_once_with_its_casts_and_views():
    step, index = StepProducts(torch), torch.arange(64).repeat(4)
    hot = called(step, torch.nn.functional.one_hot, index, ns=1_000)
    cast = called(step, torch.Tensor.float, hot, ns=200)
    called(step, torch.matmul, cast, VALUES)
    called(step, torch.matmul, called(step, torch.Tensor.t, cast, ns=30), torch.randn(256, 8))
    assert [call.ns - LEAST_NS for call in step.found] == [1_200, 30]


def test_a_matrix_that_is_filled_in_place_was_made_as_well():
    step, index = StepProducts(torch), torch.arange(64).repeat(4)
    hot = called(step, torch.zeros, 256, 64, ns=500)
    called(step, torch.Tensor.scatter_, hot, 1, index[:, None], 1.0, ns=100)
    called(step, torch.matmul, hot, VALUES)
    assert step.found[0].ns == LEAST_NS + 600


def test_backward_takes_as_long_where_the_other_factor_gets_gradients():
    step = StepProducts(torch)
    called(step, torch.matmul, ONE_HOT, VALUES.clone().requires_grad_())
    called(step, torch.matmul, ONE_HOT, VALUES)
    assert [call.backward_ns for call in step.found] == [LEAST_NS, 0]


def test_of_a_large_matrix_rows_are_looked_at_as_they_lie_in_memory():
    rows = 2 * COUNTED // 256
    large = torch.nn.functional.one_hot(torch.arange(rows) % 256, 256).float()
    assert found(torch.mm, large, torch.randn(256, 2)) == [(rows, 256, True)]
    assert found(torch.mm, large.t(), torch.randn(rows, 2)) == [(rows, 256, True)]


def test_a_tensor_of_a_transform_tells_no_values_and_is_left_alone():
    step = StepProducts(torch)
    torch.func.vmap(lambda row: called(step, torch.matmul, ONE_HOT * row, VALUES))(torch.ones(3))
    assert step.found == []
