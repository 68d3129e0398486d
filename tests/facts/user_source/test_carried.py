"""What the turns of a loop hand to each other."""

import ast
from textwrap import dedent

import pytest

from perfdoctor.facts.user_source.carried import carried


@pytest.mark.parametrize(
    ("body", "handed"),
    [
        ("y = f(x)\nout.append(y)", set()),
        ("total = total + f(x)", set()),
        ("h = cell(x, h)", {"h"}),
        ("total = total + f(x)\nscale(total)", {"total"}),
        ("if x:\n    y = f(x)\nuse(y)", {"y"}),
        ("if x:\n    y = f(x)\nelse:\n    y = g(x)\nuse(y)", set()),
        ("for part in x:\n    y = f(part)\nuse(y)", set()),
        ("while x:\n    y = f(x)\nuse(y)", {"y"}),
        ("with lock:\n    y = f(x)\nuse(y)", set()),
        ("state.cell = f(x, state.cell)", {"state"}),
        ("self.state.cell = f(x, self.state.cell)", {"self.state"}),
        ("state.mul_(x).add_(1)", {"state"}),
        ("update(h, x[t])\ny = h * 2", {"h"}),
        ("print(h)\ny = h * 2\nout.append(h)", set()),
    ],
)
def test_what_is_read_before_it_surely_was_set_comes_from_the_turn_before(
    body: str, handed: set[str]
) -> None:
    assert carried(ast.parse(dedent(body)).body) == handed
