"""What counts as factorising copies of a matrix."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.looks.factorizations import FactorisedMatrices, StepFactorizations

NS = 1_000
ONE = torch.eye(6) + 0.1
STACK = ONE.repeat(4, 1, 1)
SIDES = torch.randn(5, 6, 1)


def found(function, *args, **kwargs):
    """(different matrices, times that each is factorised) of a call; None where it does not count."""
    step = StepFactorizations(torch, FactorisedMatrices(torch))
    seen = step.before(function, args, kwargs)
    result = function(*args, **kwargs)
    if seen is not None:
        step.after(seen, result, NS)
    return (step.found[0].matrices, step.found[0].times) if step.found else None


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        pytest.param(torch.linalg.solve, (ONE, SIDES), (1, 5), id="one matrix, a stack of sides"),
        pytest.param(torch.linalg.solve, (STACK[:, None], SIDES), (4, 5), id="each matrix, the same sides"),
        pytest.param(torch.linalg.solve, (ONE.expand(5, 6, 6), SIDES), (1, 5), id="expanded"),
        pytest.param(torch.linalg.inv, (ONE.expand(5, 6, 6),), (1, 5), id="inverse of one that is expanded"),
        pytest.param(
            torch.linalg.cholesky, (ONE.expand(5, 6, 6),), (1, 5), id="factors of one that is expanded"
        ),
        pytest.param(torch.linalg.solve, (ONE, SIDES[..., 0].T), None, id="sides as columns"),
        pytest.param(torch.linalg.solve, (ONE, SIDES[0, :, 0]), None, id="one vector"),
        pytest.param(torch.linalg.solve, (STACK, SIDES[:4, :, 0]), None, id="a vector for each matrix"),
        pytest.param(torch.linalg.solve, (STACK, SIDES[:4]), None, id="a side for each matrix"),
        pytest.param(torch.linalg.inv, (STACK,), None, id="different matrices"),
        pytest.param(torch.matmul, (ONE.expand(5, 6, 6), SIDES), None, id="a product"),
    ],
)
def test_copies_are_counted(function, args, expected):
    assert found(function, *args) == expected


def test_arguments_may_be_named():
    assert found(torch.linalg.solve, A=ONE, B=SIDES) == (1, 5)


def again(*calls):
    """Of calls of a step, each a function with its arguments, which had the matrices of an earlier one."""
    step = StepFactorizations(torch, FactorisedMatrices(torch))
    for function, *args in calls:
        step.after(step.before(function, args, {}), function(*args), NS)
    return [call.again for call in step.found]


def test_a_matrix_that_was_factorised_before_is_known_by_its_values():
    solve, side = torch.linalg.solve, SIDES[0, :, 0]
    assert again((solve, ONE, side), (solve, ONE.clone(), side), (solve, 2 * ONE, side)) == [True]
    assert again((solve, ONE, side), (torch.linalg.inv, ONE)) == []


def test_a_matrix_that_was_changed_in_place_is_another_one():
    matrix = ONE.clone()
    step = StepFactorizations(torch, FactorisedMatrices(torch))
    for _ in range(3):
        step.after(step.before(torch.linalg.inv, (matrix,), {}), torch.linalg.inv(matrix), NS)
        matrix += 1.0
    assert step.found == []


def test_no_more_is_kept_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr("perfdoctor.probe.looks.factorizations.ALIKE_MAX", 1)
    inv = torch.linalg.inv
    assert again((inv, ONE), (inv, 2 * ONE), (inv, 2 * ONE), (inv, ONE)) == [True]


def test_a_jitter_on_the_diagonal_makes_another_matrix():
    jittered = (100 * torch.ones(6, 6) + torch.eye(6) * (200 + 1e-3 * turn) for turn in range(3))
    assert again(*((torch.linalg.cholesky, matrix) for matrix in jittered)) == []


def test_stacks_of_matrices_and_those_that_are_not_square_are_fine():
    svd, stack = torch.linalg.svd, torch.randn(3, 6, 6)
    assert again((svd, stack), (svd, stack), (svd, stack[:, :4]), (svd, stack[:, :4])) == [True]


def test_under_autocast_and_of_complex_numbers_nothing_is_rounded_away():
    near = [ONE * (1 + 1e-4 * turn) for turn in range(3)]
    with torch.autocast("cpu", torch.bfloat16):
        assert again(*((torch.linalg.inv, matrix) for matrix in near)) == []
    whole = ONE + 1j * ONE
    assert again((torch.linalg.inv, whole), (torch.linalg.inv, whole.clone())) == [True]
