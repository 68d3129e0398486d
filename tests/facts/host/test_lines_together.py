from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.host.lines_together import lines_together
from perfdoctor.facts.host.stack_costs import StackCost
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Location, Phase
from tests.support.records import source_of

TRAIN = "/home/me/train.py"
SCRIPT = dedent(
    """\
    def draw(buffer):
        powered = buffer ** 0.6
        powered /= powered.sum()
        size = len(powered)
        chosen = choose(powered,
            size)
        seen.append(chosen)
        seen.append(chosen)
        weights = chosen ** 2
        return weights
    def other(buffer):
        return buffer
    """
)
SITE = "/venv/lib/python3.11/site-packages"
LOG = Frame("Logger.log", f"{SITE}/lightning/pytorch/core/module.py", 5, Owner.LIBRARY)
NORM = Frame("Tensor.norm", f"{SITE}/torch/functional.py", 5, Owner.TORCH)


def firsts(*lines, beyond=(), phases=(Phase.OTHER,), known=True):
    paths = []
    for index, line in enumerate(lines):
        function = "draw" if line < 11 else "other"
        frame = Frame(function, TRAIN, line, Owner.USER)
        cost = StackCost(phases[index % len(phases)], (frame,), beyond, 10)
        paths.append(((Location(TRAIN, line, function),), cost))
    found = lines_together(paths, Sources(source_of(train=SCRIPT if known else "")))
    return [found[cost.phase, TRAIN, path[0].line] for path, cost in paths]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param((2, 3, 5), [2, 2, 2], id="one-short-statement-between"),
        pytest.param((3, 2), [2, 2], id="in-any-order"),
        pytest.param((5, 9), [5, 9], id="two-statements-between"),
        pytest.param((6, 7), [6, 6], id="a-statement-of-several-lines"),
        pytest.param((10, 12), [10, 12], id="another-function"),
    ],
)
def test_lines_whose_statements_follow_each_other_are_together(lines, expected):
    assert firsts(*lines) == expected


def test_lines_of_different_phases_are_not():
    assert firsts(2, 3, phases=(Phase.OTHER, Phase.FORWARD)) == [2, 3]


def test_calls_of_one_function_of_a_library_are_together_wherever_they_are_in_a_function():
    assert firsts(2, 9, beyond=(LOG,)) == [2, 2]
    assert firsts(2, 9, beyond=(NORM,)) == [2, 9]
    assert firsts(2, 12, beyond=(LOG,)) == [2, 12]


def test_without_the_source_only_calls_tell():
    assert firsts(2, 3, known=False) == [2, 3]
    assert firsts(2, 3, beyond=(LOG,), known=False) == [2, 2]
