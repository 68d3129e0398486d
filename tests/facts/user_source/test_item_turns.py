from __future__ import annotations

import textwrap

import pytest

from perfdoctor.facts.user_source.item_turns import ItemTurns
from perfdoctor.facts.user_source.parse import Sources
from tests.support.records import source_of

FILE = "/home/me/train.py"


def found(body: str, marked: str = "self.net(") -> list[int]:
    """The first lines of what goes through items around the last line that holds `marked`."""
    text = textwrap.dedent(body)
    line = max(number for number, one in enumerate(text.split("\n"), 1) if marked in one)
    return [turns.node.lineno for turns in ItemTurns.around(Sources(source_of(train=text)), FILE, line)]


FORWARD = "class Net(Module):\n    def forward(self, xs, state=None):\n"


def in_forward(body: str) -> str:
    return FORWARD + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("outs = []\nfor x in xs:\n    outs.append(self.net(x))", id="a-list"),
        pytest.param(
            "total = 0\nfor i in range(len(xs)):\n    total += self.net(xs[i])", id="a-sum-by-index"
        ),
        pytest.param(
            "n = xs.shape[0]\nfor i in range(n):\n    out[i] = self.net(xs[i])", id="a-number-of-items"
        ),
        pytest.param(
            """
            outs = []
            for x, edges in xs:
                h = self.embed(x.float())
                for layer in self.layers:
                    h = layer(h, edges)
                outs.append(self.net(h.mean(0)))
            """,
            id="layers-inside",
        ),
        pytest.param(
            """
            outs = []
            for x in xs:
                if x.dim() == 1:
                    h = x[None]
                else:
                    h = x
                _, (h, c) = self.rnn(h)
                outs.append(self.net(h[-1]))
            """,
            id="set-on-both-ways",
        ),
        pytest.param("outs = torch.stack([self.net(x) for x in xs])", id="a-comprehension"),
    ],
)
def test_turns_that_do_the_same_for_one_item_each(body):
    assert len(found(in_forward(body))) == 1


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("for layer in self.layers:\n    out = out + self.net(layer(xs))", id="of-the-model"),
        pytest.param(
            "for x, head in zip(xs, self.heads):\n    out.append(self.net(head(x)))", id="with-a-head-each"
        ),
        pytest.param("for i, x in enumerate(xs):\n    out.append(self.net(self.heads[i](x)))", id="by-index"),
        pytest.param(
            "for i, x in enumerate(xs):\n    head = self.heads[i]\n    out.append(self.net(head(x)))",
            id="by-a-name",
        ),
        pytest.param(
            "for i, x in enumerate(xs):\n    out.append(self.net(getattr(self, f'head{i}')(x)))",
            id="by-getattr",
        ),
        pytest.param("for expert in xs:\n    out.append(self.net(expert(state)))", id="given-modules"),
        pytest.param(
            "for block in xs:\n    out.append(self.net(block.attend(state)))", id="parts-of-given-modules"
        ),
        pytest.param("for x in xs:\n    state = self.net(x, state)", id="a-state"),
        pytest.param(
            """
            for i, x in enumerate(xs):
                if i == 0:
                    h = torch.zeros(3)
                h = self.net(x, h)
            """,
            id="a-state-that-the-first-turn-sets",
        ),
        pytest.param("for x in xs:\n    self.h = self.net(x, self.h)", id="a-state-of-its-own"),
        pytest.param("for x in xs:\n    outs.append(self.net(x, outs[-1]))", id="reads-the-list"),
        pytest.param("for x in xs:\n    y = self.net(x)\n    if y > 0: break", id="ends-by-a-result"),
        pytest.param("for x in xs:\n    self.net(x).sum().backward()", id="a-backward-each"),
        pytest.param("for _ in range(9):\n    outs.append(self.net(xs))", id="the-same-for-all"),
        pytest.param("while len(xs):\n    outs.append(self.net(xs.pop()))", id="while"),
        pytest.param("out = sum([head(xs) for head in self.net(xs)])", id="heads-in-a-comprehension"),
        pytest.param("out = self.net(torch.stack([x * 2 for x in xs]))", id="beside-a-comprehension"),
    ],
)
def test_other_loops_are_none(body):
    assert found(in_forward(body)) == []


TRAIN = """
    for epoch in range(9):
        for batch in loader:
            outs = []
            for x in batch:
                outs.append(self.net(x))
            torch.stack(outs).mean().backward()
            optimizer.step()
"""


def test_in_a_script_what_the_training_loop_sets_is_data_and_that_loop_itself_goes_through_none():
    assert found(TRAIN) == [5]
    assert found(TRAIN.replace("for x in batch", "for x in every")) == []
