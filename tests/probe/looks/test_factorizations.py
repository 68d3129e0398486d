"""What counts as factorising copies of a matrix."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.looks.factorizations import StepFactorizations

NS = 1_000
ONE = torch.eye(6) + 0.1
STACK = ONE.repeat(4, 1, 1)
SIDES = torch.randn(5, 6, 1)


def found(function, *args, **kwargs):
    """(different matrices, times that each is factorised) of a call; None where it does not count."""
    step = StepFactorizations(torch)
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
