"""What an expression may stand for, and how often a file is looked at to tell it."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from perfdoctor.facts.user_source.effects import EffectsFinder
from perfdoctor.facts.user_source.origins import SourceFile
from perfdoctor.facts.user_source.parse import Listing
from perfdoctor.facts.user_source.update_dependence import dependence


class Counted(SourceFile):
    """Counts the expressions that are looked into."""

    looks = 0

    def _refers(self, node):
        self.looks += 1
        return super()._refers(node)


def listing(text):
    return Listing(dedent(text).strip("\n").split("\n"))


def expression(text):
    return ast.parse(text, mode="eval").body


CHAIN = "\n".join(
    [
        "def pick0(a, b):",
        "    return a, b",
        *(
            f"def pick{n}(a, b):\n    return pick{n - 1}(a, b), pick{n - 1}(b, a)\nkept{n} = pick{n}(kept{n - 1}, kept0)"
            for n in range(1, 14)
        ),
    ]
)


def test_functions_that_call_each_other_are_looked_into_once():
    file = Counted(listing(CHAIN))
    assert file.aliases("kept13") == {f"kept{n}" for n in range(14)}
    for name in [*file.origins] * 3:
        file.aliases(name), file.aliases(name, items=True), file.is_plain(name)
    assert file.looks <= 2 * len(file.nodes)


RECURSIVE = """
def swap(left, right, deep):
    return left if deep else swap(right, left, True)

def even(value, other):
    return odd(value, other)

def odd(value, other):
    return even(other, value)

def whole(value):
    return other_of(value), value

def other_of(value):
    return [value, outer]
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("swap(a, b, c)", {"a", "b", "c"}),
        ("whole(rows)", {"rows", "outer"}),
        ("[whole(a), other_of(b), swap(c, d, e)]", {"a", "b", "c", "d", "e", "outer"}),
    ],
)
def test_what_a_result_may_hold_does_not_depend_on_what_was_asked_before(text, names):
    fresh, asked = SourceFile(listing(RECURSIVE)), SourceFile(listing(RECURSIVE))
    for before in ("other_of(x)", "even(x, y)", "odd(x, y)", "swap(x, y, z)", "whole(x)"):
        asked.refers(expression(before))
    assert fresh.refers(expression(text)) == names
    assert asked.refers(expression(text)) == names
    assert asked.refers(expression("even(p, q)")) == fresh.refers(expression("even(p, q)"))


def test_all_who_ask_about_a_file_share_what_is_known_of_it(monkeypatch):
    made = []
    enter = SourceFile.__init__
    monkeypatch.setattr(SourceFile, "__init__", lambda self, one: made.append(one) or enter(self, one))
    script = listing(CHAIN + "\nfor x in rows:\n    opt.step()\n    print(x)\n    seen = pick3(x, x)")
    for line in range(1, len(script.lines) + 1):
        dependence(script, line)
    assert EffectsFinder(script).file is EffectsFinder(script).file
    assert made == [script]


def test_what_a_file_calls_and_does_not_define_stays_undefined():
    file = SourceFile(listing("import torch\nloss = build(x)\nlayers = torch.stack(x)"))
    before = dict(file.functions), dict(file.origins)
    file.is_plain("loss"), file.aliases("unseen"), file.refers(expression("build(x)"))
    assert before == (dict(file.functions), dict(file.origins))
