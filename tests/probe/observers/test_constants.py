"""Calls that give the same in every step are told by their lines."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.support.watched import watched

pytestmark = pytest.mark.process

LOOP = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = nn.Linear(8, 8)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    table = torch.rand(40, 8)
    kept = [torch.randn(40, 8) for _ in range(4)]
    buffer = torch.zeros(40, 8)
    average = torch.zeros(8, 8)
    for step in range(600):
        {line}
        loss = net(x).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
"""


def told(tmp_path, line: str, **environment: str) -> set[int]:
    """The lines that were told of, the same in each look; the loop's first one is 13."""
    records = watched(tmp_path, LOOP.format(line=line), **environment)
    own = records.ranks[0]
    looks = own.of("constants_look")
    assert len(looks) >= 3
    assert looks[0]["constants"] == 0
    seen = [
        {event["at"]["line"] for event in own.of("constants_line") if event["look"] == look["look"]}
        for look in looks[1:]
    ]
    assert all(lines == seen[0] for lines in seen)
    return seen[0]


@pytest.mark.parametrize(
    "line",
    [
        "x = table / table.sum(1, keepdim=True)",
        "x = torch.sin(torch.arange(320.0)).view(40, 8)",
        "x = torch.tensor([[0.5] * 8] * 40)",
        "x = torch.zeros(40, 8); x[3] = 1.0; x = x * 2",
        "x = table.masked_fill(torch.ones(40, 8).triu(1).bool(), 0.0)",
    ],
)
def test_what_comes_from_unchanged_tensors_and_numbers_is_constant(tmp_path, line):
    assert told(tmp_path, line) == {13}


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        pytest.param("x = table * step", id="a-number-of-the-step"),
        pytest.param("x = torch.arange(8.0 * (step + 1)).view(-1, 8)", id="a-size-of-the-step"),
        pytest.param("x = torch.randn(40, 8) * 2", id="random"),
        pytest.param("x = nn.functional.dropout(table, 0.5) * 2", id="dropout"),
        pytest.param("x = torch.empty(40, 8).uniform_() * 2", id="filled-at-random"),
        pytest.param("x = kept[step % 4] * 2", id="batches-that-come-again"),
        pytest.param("buffer.add_(1.0); x = buffer * 2", id="changed-in-place"),
        pytest.param("average.lerp_(net.weight.detach(), 0.1); x = average * 2", id="average-of-weights"),
        pytest.param("average.data.copy_(net.weight.data); x = average * 2", id="copied-behind-the-version"),
        pytest.param("buffer.numpy()[:] += 1; x = buffer * 2", id="changed-by-numpy"),
        pytest.param("x = torch.zeros(40, 8); x += torch.randn(40, 8)", id="written-over"),
        pytest.param("x = torch.zeros(40, 8); x[:, 0].copy_(torch.randn(40))", id="written-over-by-a-view"),
        pytest.param("x = table.clone(); x.requires_grad_()", id="a-new-leaf-for-each-step"),
    ],
)
def test_what_changes_from_step_to_step_is_not(tmp_path, line):
    assert told(tmp_path, line) == set()


def test_of_a_step_with_very_many_calls_the_time_of_those_seen_is_told(tmp_path):
    line = "x = table * 2\n        for _ in range(5_000): torch.add(x, 1)"
    records = watched(tmp_path, LOOP.format(line=line).replace("range(600)", "range(90)"))
    looks = records.ranks[0].of("constants_look")
    assert looks[0]["calls"] < 5_000
    assert all(1e-7 < look["called_s"] / look["calls"] < 1e-3 for look in looks)
