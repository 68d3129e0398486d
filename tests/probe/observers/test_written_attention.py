from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional

from perfdoctor.probe.observers.written_attention import LOOKS_MAX, WrittenAttention
from tests.support.sessions import Session
from tests.support.watched import watched

KEYS = 6
HIDDEN = torch.ones(KEYS, KEYS).triu(1).bool()


def looked(loss, times=1):
    """What is written of a loss."""
    session = Session()
    account = WrittenAttention(SimpleNamespace(torch=torch, session=session))
    for _ in range(times):
        account.sample(None, loss)
    return session.events


def counts(loss):
    return [(event["written"], event["unfused"]) for event in looked(loss)]


def attend(change=lambda scores: scores, drop=lambda weights: weights):
    """A loss of attention that is written out, its scores and its weights changed."""
    query, key, value = (torch.randn(2, 3, KEYS, 4, requires_grad=True) for _ in range(3))
    scores = change(query @ key.transpose(-2, -1) / 2.0)
    return (drop(scores.softmax(-1)) @ value).sum()


BIAS = nn.Parameter(torch.zeros(3, KEYS, KEYS))
TABLE = nn.Embedding(9, 3)


@pytest.mark.parametrize(
    "change",
    [
        lambda scores: scores,
        lambda scores: scores.masked_fill(HIDDEN, float("-inf")),
        lambda scores: scores + torch.zeros(KEYS, KEYS),
        lambda scores: scores + BIAS.detach(),
    ],
    ids=["plain", "filled", "mask", "frozen"],
)
def test_what_a_fused_kernel_computes_is_told_apart_from_what_it_does_not(change):
    assert counts(attend(change)) == [(1, 0)]


@pytest.mark.parametrize(
    "change",
    [
        lambda scores: scores + BIAS,
        lambda scores: BIAS + scores.masked_fill(HIDDEN, float("-inf")),
        lambda scores: (scores - BIAS).masked_fill(HIDDEN, float("-inf")),
        lambda scores: scores + TABLE(torch.zeros(KEYS, KEYS, dtype=torch.long)).permute(2, 0, 1),
    ],
    ids=["bias", "below-a-mask", "subtracted", "of-distances"],
)
def test_a_bias_that_is_trained_has_no_fused_gradient(change):
    assert counts(attend(change)) == [(1, 1)]


@pytest.mark.parametrize("by", [lambda w: functional.dropout(w, 0.1), lambda w: w * torch.ones(KEYS)])
def test_neither_have_weights_that_are_dropped(by):
    assert counts(attend(drop=by)) == [(1, 1)]
    assert counts(attend(drop=lambda weights: functional.dropout(weights, 0.1, training=False))) == [(1, 0)]


@pytest.mark.parametrize("trained", [True, False])
def test_a_product_that_adds_a_bias_itself_is_seen(trained):
    query, key, value = (torch.randn(6, KEYS, 4, requires_grad=True) for _ in range(3))
    bias = torch.zeros(6, KEYS, KEYS, requires_grad=trained)
    weights = torch.baddbmm(bias, query, key.transpose(1, 2)).softmax(-1)
    assert counts(torch.bmm(weights, value).sum()) == [(1, int(trained))]


@pytest.mark.parametrize(
    "loss",
    [
        lambda: nn.Linear(4, 3)(torch.ones(2, 4)).softmax(-1).sum(),
        lambda: (torch.randn(3, KEYS, KEYS, requires_grad=True).softmax(-1) @ torch.ones(3, KEYS, 4)).sum(),
        lambda: functional.scaled_dot_product_attention(
            *(torch.randn(2, 3, KEYS, 4, requires_grad=True) for _ in range(3))
        ).sum(),
        lambda: torch.ones(()),
    ],
    ids=["classifier", "no-scores", "torchs-own", "no-graph"],
)
def test_other_losses_tell_nothing(loss):
    assert looked(loss()) == []


def test_a_few_losses_are_enough_and_their_totals_are_written():
    told = looked(attend(lambda scores: scores + BIAS), LOOKS_MAX + 2)
    assert [event["written"] for event in told] == [1, 2, 3]


SCRIPT = """
    import torch
    query = torch.nn.Parameter(torch.randn(2, 6, 4))
    bias = torch.nn.Parameter(torch.zeros(6, 6))
    optimizer = torch.optim.SGD([query, bias], lr=0.01)
    for step in range(6):
        optimizer.zero_grad()
        weights = (query @ query.transpose(1, 2) + bias).softmax(-1)
        (weights @ query).sum().backward()
        optimizer.step()
"""


@pytest.mark.process
def test_a_script_that_trains_is_looked_at(tmp_path):
    told = watched(tmp_path, SCRIPT).ranks[0].of("written_attention")
    assert (told[-1]["written"], told[-1]["unfused"]) == (LOOKS_MAX, LOOKS_MAX)
