from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.loss_graph import nodes_of
from perfdoctor.probe.observers import embedding_tables
from perfdoctor.probe.observers.embedding_tables import looked_up
from tests.support import saved_hooks
from tests.support.watched import watched

ROWS = 20_000  # of 16 floats: more than a mebibyte


@pytest.fixture(autouse=True)
def _watched_hooks(monkeypatch):
    saved_hooks.watched(monkeypatch)


def found(build):
    """(rows, rows looked up, look-ups) of the tables that a loss is found to look into."""
    return [(len(table), rows, calls) for table, rows, calls in looked_up(nodes_of(build().sum().grad_fn))]


def table(rows=ROWS, **how):
    return torch.nn.Embedding(rows, 16, **how)


def test_look_ups_of_a_large_table_are_added_up():
    one = table()
    assert found(lambda: one(torch.arange(5)).sum(0) + one(torch.arange(6).view(3, 2)).sum((0, 1))) == [
        (ROWS, 5 + 6, 2)
    ]


def test_bags_are_tables_too():
    bag = torch.nn.EmbeddingBag(ROWS, 16)
    assert found(lambda: bag(torch.arange(12).view(4, 3))) == [(ROWS, 12, 1)]


def test_a_row_that_is_looked_up_again_counts_once_where_there_are_few_enough_to_sort(monkeypatch):
    one, users = table(), torch.arange(5)[:, None].expand(-1, 4)
    assert found(lambda: one(users)) == [(ROWS, 5, 1)]
    monkeypatch.setattr(embedding_tables, "COUNTED_MAX", 19)
    assert found(lambda: one(users)) == [(ROWS, 20, 1)]


def test_small_sparse_frozen_and_tied_tables_are_left_alone():
    small, sparse, frozen, tied = table(1_000), table(sparse=True), table(), table()
    frozen.requires_grad_(False)
    numbers, trained = torch.arange(5), torch.ones(16, requires_grad=True)
    assert found(lambda: small(numbers)) == []
    assert found(lambda: sparse(numbers)) == []
    assert found(lambda: frozen(numbers) * trained) == []
    assert found(lambda: tied(numbers) @ tied.weight.T) == []


def test_indices_that_the_script_saves_its_own_way_are_not_asked_for():
    one, numbers = table(), torch.arange(5)

    def unpack(saved):
        raise AssertionError("asked for")

    def build():
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
            return one(numbers)

    assert found(build) == []
    assert found(lambda: torch.utils.checkpoint.checkpoint(one, numbers, use_reentrant=False)) == []


SCRIPT = """
    import torch
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.users = nn.Embedding(20_000, 16)
            self.score = nn.Linear(16, 1)
        def forward(self, x):
            return self.score(self.users(x))
    net = Net()
    other = nn.Linear(4, 4)
    opt = torch.optim.{optimizer}
    for step in range(40):
        opt.zero_grad()
        net(torch.randperm(20_000)[:32]).mean().backward()
        opt.step()
"""


@pytest.mark.process
def test_each_sampled_backward_tells_the_table_its_line_and_its_optimizer(tmp_path):
    events = (
        watched(tmp_path, SCRIPT.format(optimizer="Adam(net.parameters())")).ranks[0].of("embedding_table")
    )
    assert len(events) == 3
    told = events[-1]
    assert (told["path"], told["rows"], told["bytes"], told["lookups"]) == ("users", 20_000, 20_000 * 64, 32)
    assert (told["optimizer"], told["calls"]) == ("Adam", 1)
    assert told["of_all"] == told["of_elements"] == pytest.approx(320_000 / 320_017)
    assert told["at"]["line"] == 7


@pytest.mark.process
def test_a_table_that_no_optimizer_updates_is_none(tmp_path):
    script = SCRIPT.format(optimizer="SGD(net.score.parameters(), lr=0.1)")
    assert watched(tmp_path, script).ranks[0].of("embedding_table") == []
