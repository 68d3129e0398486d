from __future__ import annotations

import ast

import pytest

from perfdoctor.facts.device.attention import attention_of, written_out
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import LineCost, Location, Phase, StackFacts
from tests.support.facts import step
from tests.support.records import source_of

ATTENTION = """
def forward(self, q, k, v):
    scores = q @ k.transpose(-2, -1)
    scores = scores / 8
    weights = scores.softmax(-1)
    return weights @ v
"""
STEP = step(forward=40, backward=60)


def of(text):
    between, products = attention_of(ast.parse(text).body[0])
    return [node.lineno for node in between], [node.lineno for node in products]


def test_what_stands_between_the_products_is_told_from_them():
    assert of(ATTENTION) == ([4, 5], [3, 6])


@pytest.mark.parametrize(
    "text",
    [
        "def f(q, k, v):\n    return torch.softmax(q @ k, -1) @ v",
        "def f(q, k, v):\n    a = F.softmax(torch.bmm(q, k), dim=-1)\n    return torch.bmm(a, v)",
        "def f(x, v):\n    a = self.q(x) @ self.k(x).transpose(1, 2)\n    return (a * self.scale).softmax(-1) @ v",
        "def f(q, k, v):\n    s = torch.einsum('bd,cd->bc', q, k)\n    s += m\n    return F.softmax(s, -1).matmul(v)",
    ],
)
def test_ways_to_write_it(text):
    between, _ = of(text)
    assert between


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return (x @ w).softmax(-1)",
        "def f(x):\n    p = F.softmax(self.head(x), -1)\n    return p @ values",
        "def f(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v)",
        "def f(x):\n    a = x @ w\n    return a @ u",
        "def f(x):\n    g = F.softmax(x @ self.router, -1)\n    return torch.einsum('bn,bnd->bd', g, outs)",
        "def f(z):\n    p = torch.matmul(z, self.codes.t()).softmax(-1)\n    return p @ self.codes",
    ],
)
def test_other_products_and_softmaxes_are_no_attention(text):
    assert of(text)[1] == []


def stacks(*lines):
    costs = tuple(
        LineCost(Location("train.py", number, "forward"), share, samples) for number, share, samples in lines
    )
    return StackFacts(100, "py-spy", {Phase.FORWARD: costs})


def source(file, number):
    lines = ATTENTION.split("\n")
    return lines[number - 1] if number <= len(lines) else None


def test_its_lines_share_of_forward_stands_for_backward_too():
    found = written_out(stacks((5, 0.1, 10), (6, 0.05, 5)), STEP, Sources(source))
    assert found is not None
    assert found.per_us * found.uses[0].between_us == pytest.approx(0.25)
    assert found.per_us * found.uses[0].products_us == pytest.approx(0.125)
    assert [at.line for at in found.at] == [5, 6]


def test_a_softmax_may_be_a_module_of_any_name():
    text = ATTENTION.replace("scores.softmax(-1)", "self.attend(scores)")
    lines = [
        *text.split("\n"),
        "class A:",
        "    def __init__(self):",
        "        self.attend = nn.Softmax(dim=-1)",
    ]
    named = Sources(lambda file, number: lines[number - 1] if number <= len(lines) else None)
    found = written_out(stacks((5, 0.1, 10), (6, 0.05, 5)), STEP, named)
    assert found is not None
    assert [at.line for at in found.at] == [5, 6]
    assert written_out(stacks((5, 0.1, 10), (6, 0.05, 5)), STEP, Sources(source_of(train=text))) is None


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([(5, 0.1, 5), (6, 0.05, 4)], id="too-few-samples"),
        pytest.param([(6, 0.5, 50)], id="only-products"),
        pytest.param([], id="nothing-seen"),
    ],
)
def test_is_silent(lines):
    assert written_out(stacks(*lines), STEP, Sources(source)) is None
