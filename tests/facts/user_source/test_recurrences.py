from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from perfdoctor.facts.user_source.recurrences import recurs


def of_body(*body):
    (loop,) = ast.parse("for t in range(9):\n" + "\n".join(f"    {line}" for line in body)).body
    return [recurs(loop, number) for number in range(2, 2 + len(body))]


@pytest.mark.parametrize(
    "line",
    [
        "total = total + f(x[t])",
        "total += f(x[t])",
        "total = f(x[t]) - total",
        "out[t] = f(x[t])",
        "out[t] += f(x[t])",
        "rows.append(f(x[t]))",
        "best = torch.maximum(best, f(x[t]))",
        "y = f(x[t])",
    ],
)
def test_what_is_gathered_turn_by_turn_could_be_done_at_once(line):
    assert of_body(line) == [False]


@pytest.mark.parametrize(
    "line",
    [
        "state = cell(state, x[t])",
        "state = state @ weight + x[t]",
        "state = state + f(state)",
        "out[t] = f(out[t - 1], x[t])",
        "state.cell = f(state.cell, x[t])",
        "self.state.cell = f(self.state.cell, x[t])",
        "state.cell, state.out = f(state.out, x[t]), g(state.cell)",
        "setattr(state, 'cell', f(state.cell, x[t]))",
        "torch.lerp(state, x[t], weight, out=state)",
        "state.mul_(f(x[t])).add_(x[t])",
        "state *= f(x[t])",
        "state += f(state, x[t])",
    ],
)
def test_what_needs_the_turn_before_cannot(line):
    assert of_body(line) == [True]


def test_all_lines_that_lead_to_the_next_turn_take_part():
    body = (
        "gates = x[t] + state @ weight",
        "new = torch.tanh(gates)",
        "state = 0.5 * new",
        "seen.append(new)",
    )
    assert of_body(*body) == [True, True, True, False]


def test_lines_of_an_inner_block_count():
    source = """\
    for t in range(9):
        if t:
            state = cell(state)
    """
    (loop,) = ast.parse(dedent(source)).body
    assert recurs(loop, 3)
