"""What counts as work on a whole matrix that holds nothing but a diagonal."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.looks.diagonals import COUNTED, StepDiagonals, is_diagonal

NS = 1_000
STD = torch.rand(8, 4) + 0.5
DIAGONAL = torch.diag_embed(STD)
FULL = torch.eye(4) + 0.1
VALUES = torch.randn(8, 4, 1)
ONE = DIAGONAL[0]
ROWS = torch.randn(8, 4)


class Shown(torch.overrides.TorchFunctionMode):
    """Shows each call to a step, as the probe's mode does."""

    def __init__(self):
        super().__init__()
        self.step = StepDiagonals(torch)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        seen = self.step.before(function, args, kwargs or {})
        result = function(*args, **(kwargs or {}))
        if seen is not None:
            self.step.after(seen, result, NS)
        return result


def found(work):
    """The names of the calls that count."""
    with Shown() as shown:
        work()
    return [call.name for call in shown.step.found]


@pytest.mark.parametrize(
    "work",
    [
        lambda: torch.linalg.cholesky(DIAGONAL),
        lambda: torch.linalg.cholesky_ex(DIAGONAL),
        lambda: torch.linalg.solve_triangular(DIAGONAL, VALUES, upper=False),
        lambda: torch.linalg.solve(A=DIAGONAL, B=VALUES),
        lambda: torch.linalg.inv(DIAGONAL),
        lambda: torch.linalg.slogdet(DIAGONAL),
        lambda: torch.det(DIAGONAL),
        lambda: torch.cholesky_solve(VALUES, DIAGONAL),
        lambda: torch.matmul(DIAGONAL, VALUES),
        lambda: FULL @ DIAGONAL,
        lambda: torch.nn.functional.linear(ROWS, ONE),
        lambda: torch.nn.functional.linear(ROWS, ONE, torch.ones(4)),
        lambda: torch.einsum("ij,bj->bi", ONE, ROWS),
        lambda: torch.einsum("ij,bj->bi", [ONE, ROWS]),
        lambda: torch.einsum(ONE, [0, 1], ROWS, [2, 1], [2, 0]),
        lambda: torch.addmm(torch.zeros(4), ROWS, ONE),
        lambda: torch.addmm(input=torch.zeros(4), mat1=ROWS, mat2=ONE),
        lambda: torch.zeros(8, 4).addmm(ROWS, ONE),
        lambda: torch.addmv(torch.zeros(4), ONE, ROWS[0]),
        lambda: torch.baddbmm(torch.zeros(8, 4, 1), DIAGONAL, VALUES),
        lambda: torch.tensordot(ROWS, ONE, dims=1),
        lambda: torch.inner(ROWS, ONE),
        lambda: torch.linalg.multi_dot([ROWS, FULL, ONE]),
        lambda: torch.matrix_exp(ONE),
        lambda: torch.linalg.matrix_exp(ONE),
        lambda: torch.matrix_power(ONE, 3),
        lambda: torch.linalg.matrix_power(ONE, 3),
        lambda: torch.linalg.pinv(ONE),
        lambda: torch.pinverse(ONE),
        lambda: torch.linalg.solve_ex(ONE, FULL),
    ],
)
def test_whatever_takes_a_diagonal_as_a_matrix_counts(work):
    assert len(found(work)) == 1


@pytest.mark.parametrize(
    "work",
    [
        lambda: torch.linalg.cholesky(FULL),
        lambda: torch.linalg.solve(FULL, torch.eye(4)),
        lambda: FULL @ FULL,
        lambda: torch.ones(4, 4).tril() @ FULL,
        lambda: torch.zeros(4, 4) @ FULL,
        lambda: torch.diag_embed(STD) + FULL,
        lambda: FULL.masked_fill(torch.eye(4).bool(), 0.0),
        lambda: torch.linalg.cholesky(torch.ones(3, 1, 1)),
        lambda: torch.nn.functional.linear(ROWS, FULL),
        lambda: torch.addmm(ONE, FULL, FULL),
        lambda: torch.addmm(input=ONE, mat1=FULL, mat2=FULL),
        lambda: torch.baddbmm(DIAGONAL, FULL.expand(8, 4, 4), FULL.expand(8, 4, 4)),
        lambda: torch.mm(FULL, FULL, out=torch.eye(4)),
        lambda: torch.einsum("ii->i", ONE),
        lambda: torch.einsum("ij->j", [ONE]),
        lambda: torch.linalg.multi_dot([ROWS, FULL, FULL]),
        lambda: torch.linalg.solve_ex(FULL, ONE),
    ],
)
def test_full_matrices_masks_and_what_is_made_and_not_used_do_not(work):
    assert found(work) == []


def test_making_checking_and_using_it_belong_to_one_matrix():
    def work():
        covariance = torch.diag_embed(STD.square())
        normal = torch.distributions.MultivariateNormal(torch.zeros(8, 4), covariance, validate_args=True)
        normal.log_prob(torch.randn(8, 4))
        normal.rsample()

    names = found(work)
    assert {"diag_embed", "isclose", "linalg_cholesky_ex", "linalg_cholesky"} <= set(names)
    assert {"linalg_solve_triangular", "matmul"} <= set(names)


def test_the_backward_of_a_product_with_a_list_of_factors_is_timed():
    std = STD[0].clone().requires_grad_()
    with Shown() as shown:
        loss = torch.einsum("ij,bj->bi", [torch.diag(std), ROWS]).sum()
    loss.backward()
    assert [(call.name, call.backward_ns > 0) for call in shown.step.found] == [
        ("diag", True),
        ("einsum", True),
    ]


def test_a_distribution_with_a_full_covariance_is_left_alone():
    def work():
        normal = torch.distributions.MultivariateNormal(torch.zeros(4), FULL @ FULL.T)
        normal.log_prob(normal.rsample())

    assert found(work) == []


def test_the_backward_of_its_calls_is_timed_and_that_of_others_is_not():
    std, mean = STD.clone().requires_grad_(), torch.randn(8, 4, requires_grad=True)
    plain = [one.detach().clone().requires_grad_() for one in (std, mean)]
    with Shown() as shown:
        scale = torch.diag_embed(std.exp())
        loss = torch.linalg.solve_triangular(scale, mean.tanh().unsqueeze(-1), upper=False).sum()
    loss.backward()
    assert all(call.backward_ns > 0 for call in shown.step.found)
    (plain[1].tanh() / plain[0].exp()).sum().backward()
    assert torch.allclose(std.grad, plain[0].grad)
    assert torch.allclose(mean.grad, plain[1].grad)


def test_repeated_and_many_matrices_are_told_by_some():
    assert is_diagonal(torch.eye(4).expand(10, 3, 4, 4))
    assert is_diagonal(torch.eye(4).repeat(COUNTED // 8, 1, 1))
    late = torch.eye(4).repeat(4, 1, 1)
    late[-1, 1, 2] = 0.1
    assert not is_diagonal(late)


def test_a_tensor_of_a_transform_tells_no_values_and_is_left_alone():
    assert found(lambda: torch.func.vmap(lambda row: torch.linalg.inv(DIAGONAL * row))(torch.ones(3))) == []
