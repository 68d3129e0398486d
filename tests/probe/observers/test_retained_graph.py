from __future__ import annotations

import collections
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from torch import nn

from perfdoctor.probe.observers.retained_graph import APART, SEVERAL, TOKENS_MAX, RetainedGraphs
from tests.support.sessions import Session

pytestmark = pytest.mark.process


class Meter:
    def __init__(self):
        self.sum = 0

    def add(self, value):
        self.sum = self.sum + value


class Keeper:
    """What a script may keep, step by step."""

    def __init__(self):
        self.total, self.losses, self.meter, self.best = 0, [], Meter(), None
        self.per_class = {}
        self.history, self.recent = collections.defaultdict(list), collections.deque(maxlen=8)

    def summed(self, step, loss, out, **others):
        self.total += loss

    def listed(self, step, loss, out, **others):
        self.losses.append(loss)

    def outputs(self, step, loss, out, **others):
        self.losses.append(out)

    def metered(self, step, loss, out, **others):
        self.meter.add(loss)

    def nested(self, step, loss, out, **others):
        self.history["train"].append((step, loss))

    def penalty_summed(self, penalty, **others):
        self.total = self.total + penalty

    def auxiliary_listed(self, auxiliary, **others):
        self.losses.append(auxiliary)

    def beside_listed(self, beside, **others):
        self.losses.append(beside)

    def beside_summed(self, beside, **others):
        self.total = self.total + beside

    def beside_detached(self, beside, **others):
        self.losses.append(beside.detach())

    def beside_of_one(self, step, beside, **others):
        self.per_class[step % 3] = beside

    def numbers(self, step, loss, out, **others):
        self.total += loss.item()

    def detached(self, step, loss, out, **others):
        self.losses.append(loss.detach())

    def a_few(self, step, loss, out, **others):
        self.recent.append(loss)

    def one(self, step, loss, out, **others):
        self.best = loss if self.best is None else min(self.best, loss)

    def for_a_while(self, step, loss, out, **others):
        self.total = loss if step % 10 == 0 else self.total + loss


def train(keep, steps=300):
    """The events of a loop that looks at every fourth step."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    head = nn.Linear(4, 2)
    keeper, retained = Keeper(), RetainedGraphs(Session(), torch)
    for step in range(steps):
        out = net(torch.randn(5, 4))
        penalty = sum(p.abs().sum() for p in net.parameters())
        auxiliary = head(torch.randn(5, 4)).mean()
        beside = net(torch.randn(5, 4)).mean()  # of a pass that no gradient is taken of
        loss = out.pow(2).mean() + penalty + auxiliary
        if step % 4 == 0:
            retained.sample(SimpleNamespace(written=step), loss)
        loss.backward()
        getattr(keeper, keep)(
            step=step, loss=loss, out=out, penalty=penalty, auxiliary=auxiliary, beside=beside
        )
    assert len(retained.tokens) <= TOKENS_MAX
    return retained.session.events


@pytest.mark.parametrize(
    ("keep", "name"),
    [
        ("summed", "keeper.total"),
        ("listed", "keeper.losses"),
        ("outputs", "keeper.losses"),
        ("metered", "keeper.meter.sum"),
        ("nested", "keeper.history"),
        ("penalty_summed", "keeper.total"),
        ("auxiliary_listed", "keeper.losses"),
        ("beside_listed", "keeper.losses"),
        ("beside_summed", "keeper.total"),
    ],
)
def test_the_name_that_holds_old_graphs_is_found(keep, name):
    last = train(keep)[-1]
    assert last["name"] == name
    assert last["graphs"] >= SEVERAL
    assert last["rows"] >= APART
    assert last["at"]["function"] == "train"


@pytest.mark.parametrize(
    "keep", ["numbers", "detached", "a_few", "one", "for_a_while", "beside_detached", "beside_of_one"]
)
def test_what_is_let_go_again_raises_nothing(keep):
    assert train(keep) == []
