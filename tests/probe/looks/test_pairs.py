"""What counts as distances or similarities of all pairs."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.looks.pairs import ABSOLUTE, COSINE, DISTANCE, PRODUCT, StepPairs

F = torch.nn.functional
X, Y = torch.randn(64, 32), torch.randn(128, 32)
A, B = X[:, None], Y[None]


class Step:
    """A step whose calls are shown as the mode shows them."""

    def __init__(self):
        self.pairs = StepPairs(torch)

    def call(self, function, *args, ns=10, **kwargs):
        seen = self.pairs.before(function, args, kwargs)
        result = function(*args, **kwargs)
        if seen is not None:
            self.pairs.after(seen, result, ns)
        return result

    @property
    def found(self):
        return [(call.kind, call.pairs, call.width, call.ns) for call in self.pairs.found]


def test_a_difference_that_is_squared_and_summed_is_a_distance():
    step = Step()
    apart = step.call(torch.Tensor.__sub__, A, B)
    assert step.found == []
    squared = step.call(torch.Tensor.pow, apart, 2)
    step.call(torch.Tensor.sum, squared, -1)
    assert step.found == [(DISTANCE, 64 * 128, 32, 30)]


@pytest.mark.parametrize(
    ("begins", "sums", "kwargs", "kind"),
    [
        pytest.param(torch.Tensor.__mul__, torch.Tensor.sum, {"dim": -1}, PRODUCT, id="sum-of-a-product"),
        pytest.param(torch.sub, torch.Tensor.norm, {"dim": 2}, DISTANCE, id="norm"),
        pytest.param(torch.sub, torch.linalg.vector_norm, {"dim": (-1,)}, DISTANCE, id="vector-norm"),
        pytest.param(torch.mul, torch.mean, {"dim": -1}, PRODUCT, id="mean"),
    ],
)
def test_whatever_sums_up_the_numbers_of_each_pair_ends_it(begins, sums, kwargs, kind):
    step = Step()
    step.call(sums, step.call(begins, A, B), **kwargs)
    assert [call[0] for call in step.found] == [kind]


def test_absolute_differences_are_told_apart():
    step = Step()
    step.call(torch.Tensor.sum, step.call(torch.Tensor.abs, step.call(torch.sub, A, B)), -1)
    assert [call[0] for call in step.found] == [ABSOLUTE]


def test_one_function_may_do_all_of_it():
    step = Step()
    step.call(F.cosine_similarity, A, B, dim=-1)
    step.call(F.pairwise_distance, A, B)
    assert [call[0] for call in step.found] == [COSINE, DISTANCE]


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        pytest.param(torch.sub, (A, B[:, :1]), {}, id="one-is-not-broadcast"),
        pytest.param(
            torch.sub, (X[:, None, :4].contiguous(), Y[None, :, :4].contiguous()), {}, id="few-numbers"
        ),
        pytest.param(torch.sub, (A[:8], B[:, :8]), {}, id="few-pairs"),
        pytest.param(torch.sub, (X[:, :, None], Y.t()[None, :, :]), {}, id="pairs-come-last"),
        pytest.param(F.cosine_similarity, (X[:, :, None], Y.t()[None]), {"dim": 1}, id="another-dimension"),
        pytest.param(torch.sub, (A, 2.0), {}, id="a-number"),
    ],
)
def test_what_else_is_broadcast_does_not_count(function, args, kwargs):
    step = Step()
    result = step.call(function, *args, **kwargs)
    if result.dim() == 3:
        step.call(torch.Tensor.sum, result, -1)
    assert step.found == []


def test_a_sum_over_the_pairs_is_none():
    step = Step()
    step.call(torch.Tensor.sum, step.call(torch.sub, A, B), 1)
    step.call(torch.Tensor.sum, step.call(torch.sub, A, B))
    assert step.found == []


def test_an_error_of_the_scripts_own_stays_its_own():
    with pytest.raises(RuntimeError):
        Step().call(torch.sub, X, torch.randn(63, 32))


def test_backward_is_timed():
    step = Step()
    x = X.clone().requires_grad_()
    step.call(
        torch.Tensor.sum, step.call(torch.Tensor.square, step.call(torch.sub, x[:, None], B)), -1
    ).sum().backward()
    (call,) = step.pairs.found
    assert call.backward_ns > 0
    assert torch.allclose(x.grad, 2 * (A - B).sum(1), atol=1e-3)
