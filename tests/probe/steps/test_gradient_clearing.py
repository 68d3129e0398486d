from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn

from perfdoctor.probe.module_parts import gradient_of
from perfdoctor.probe.steps.gradient_clearing import EACH, OPTIMIZERS_MAX, GradientClearing
from tests.support.sessions import Session
from tests.support.watched import watched

pytestmark = pytest.mark.process


class Loop:
    """A loop's calls, with the hooks around them."""

    def __init__(self):
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-4)
        self.clearing = GradientClearing(Session(), torch)

    def loss(self):
        return self.net(torch.randn(5, 4)).pow(2).mean()

    def backward(self, loss=None):
        self.clearing.before_backward()
        (self.loss() if loss is None else loss).backward()
        self.clearing.after_backward()

    def step(self, optimizer=None):
        optimizer = optimizer or self.optimizer
        optimizer.step()
        counts = self.clearing.counts_of(optimizer)
        if counts is not None:  # as the hook behind an update does
            counts.updates += 1
            if counts.updates >= counts.next or self.clearing.open:
                self.clearing.judge(optimizer, counts)

    def verdicts(self):
        """(kept, cleared) of each optimizer."""
        self.clearing.pulse()
        last = {event["optimizer"]: event for event in self.clearing.session.events}
        return [(event["kept"], event["cleared"]) for event in last.values()]


def test_a_loop_that_never_clears_is_seen_at_every_look(tmp_path):
    script = """
    import torch
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=1e-3)
    for _ in range(40):
        weight.pow(2).sum().backward()
        optimizer.step()
    """
    event = watched(tmp_path, script).ranks[0].of("clearing")[-1]
    assert event["kept"] >= EACH - 2
    assert event["cleared"] == 0
    assert event["by_value"]
    assert [line["line"] for line in event["lines"]] == [6, 7]


def each(loop):
    return loop.net.parameters()


CLEARING = {
    "before": lambda loop: (loop.optimizer.zero_grad(), loop.backward(), loop.step()),
    "after the update": lambda loop: (loop.backward(), loop.step(), loop.optimizer.zero_grad()),
    "zeros": lambda loop: (loop.optimizer.zero_grad(set_to_none=False), loop.backward(), loop.step()),
    "of the module": lambda loop: (loop.net.zero_grad(), loop.backward(), loop.step()),
    "by hand": lambda loop: (loop.backward(), loop.step(), [p.grad.zero_() for p in each(loop)]),
    "behind torch's back": lambda loop: (
        loop.backward(),
        loop.step(),
        [p.grad.data.zero_() for p in each(loop)],
    ),
    "clipped": lambda loop: (
        loop.optimizer.zero_grad(),
        loop.backward(),
        nn.utils.clip_grad_norm_(each(loop), 0.1),
        loop.step(),
    ),
    "accumulated": lambda loop: (
        loop.optimizer.zero_grad(),
        [loop.backward() for _ in range(3)],
        loop.step(),
    ),
}


@pytest.mark.parametrize("way", CLEARING)
def test_every_way_to_clear_is_seen(way):
    loop = Loop()
    for _ in range(24):
        CLEARING[way](loop)
    kept, cleared = loop.verdicts()[0]
    assert kept == 0
    assert cleared > 10


def test_the_other_network_of_a_gan_adds_to_gradients_that_are_cleared_later():
    loop = Loop()
    judge = nn.Linear(1, 1)
    second = torch.optim.SGD(judge.parameters(), lr=1e-4)
    for _ in range(24):
        loop.optimizer.zero_grad()
        loop.backward(judge(loop.net(torch.randn(5, 4))).mean())
        loop.step()
        second.zero_grad()
        loop.backward(judge(loop.net(torch.randn(5, 4)).detach()).mean())
        loop.step(second)
    assert [kept for kept, _ in loop.verdicts()] == [0, 0]


def test_an_optimizer_that_clears_inside_its_update_is_not_accused():
    class Own(torch.optim.SGD):
        def step(self, closure=None):
            super().step()
            for group in self.param_groups:
                for p in group["params"]:
                    p.grad.zero_()

    loop = Loop()
    loop.optimizer = Own(loop.net.parameters(), lr=1e-4)
    for _ in range(24):
        loop.backward()
        loop.step()
    assert loop.verdicts()[0][0] == 0


def test_without_end_of_new_optimizers_only_the_first_are_watched():
    loop, kept_alive = Loop(), []
    for _ in range(3 * OPTIMIZERS_MAX):
        kept_alive.append(torch.optim.SGD([nn.Parameter(torch.ones(3))], lr=0.1))
        for _ in range(4):
            loop.step(kept_alive[-1])
    assert len(loop.verdicts()) == OPTIMIZERS_MAX


def test_an_optimizer_where_another_lay_in_memory_has_counts_of_its_own():
    loop = Loop()
    seen = []
    for _ in range(OPTIMIZERS_MAX + 2):
        loop.optimizer = None  # its place in memory is free
        loop.optimizer = torch.optim.SGD(loop.net.parameters(), lr=1e-4)
        known = loop.clearing.counts_of(loop.optimizer)
        seen.append(known and known.number)
    assert seen == [1, 2, 3, 4, None, None]


def test_gradients_of_a_model_that_is_gone_are_looked_at_no_more():
    loop = Loop()
    for _ in range(2):
        loop.backward()
        loop.step()
    assert len(loop.clearing.open) == 1
    loop.net = loop.optimizer = None
    loop.clearing.before_backward()
    assert loop.clearing.open == {}


def test_a_sparse_gradient_is_left_alone():
    loop = Loop()
    table = nn.Embedding(10, 3, sparse=True)
    optimizer = torch.optim.SparseAdam(list(table.parameters()))
    for _ in range(4):
        loop.backward(table(torch.tensor([1, 2])).sum())
        loop.step(optimizer)
    assert loop.clearing.open == {}


@pytest.mark.filterwarnings("error")
def test_what_gets_no_gradient_is_not_asked_for_it():
    weight = torch.ones(3, requires_grad=True)
    own = [(weight * number).requires_grad_() for number in (1, 2)]
    own[1].retain_grad()
    own[1].sum().backward()
    assert [gradient_of(one) is not None for one in (weight, *own)] == [True, False, True]
