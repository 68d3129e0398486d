from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.facts.user_source.wrapped_again import wrapping_lines
from tests.support.records import source_of

TRAIN = "/home/me/train.py"


def lines(text, **others):
    sources = Sources(source_of(train=dedent(text), **{name: dedent(each) for name, each in others.items()}))
    return [(at.file.rpartition("/")[2], at.line) for at in wrapping_lines(sources, [TRAIN])]


@pytest.mark.parametrize(
    "text",
    [
        "for chosen in rounds:\n    pool = Subset(pool, chosen)",
        "while True:\n    seen = data.ConcatDataset([seen, new])",
        "for part in parts:\n    part, pool = random_split(pool, [9, 1])",
        "for task in tasks:\n    replay = ConcatDataset(datasets=[Subset(task, kept), replay])",
    ],
)
def test_a_line_in_a_loop_that_wraps_what_it_sets(text):
    assert lines(text) == [("train.py", 2)]


def test_functions_that_are_called_in_loops_directly_or_not():
    text = """\
        def narrow(pool, chosen):
            return Subset(pool, chosen)
        class Learner:
            def ask(self):
                self.pool = narrow(self.pool, [1])
        def main():
            for _ in range(9):
                learner.ask()
        """
    assert lines(text) == [("train.py", 2)]


def test_of_several_those_that_set_what_they_take_come_alone():
    text = """\
        for fold in folds:
            train = Subset(base, fold)
            self.pool = Subset(self.pool, fold)
        """
    assert lines(text) == [("train.py", 3)]
    assert lines(text.replace("self.pool = ", "held = ")) == [("train.py", 2), ("train.py", 3)]


def test_what_the_script_imports_is_looked_at():
    script = "from pools import after_round\nfor _ in range(9):\n    pool = after_round(pool)\n"
    pools = "def after_round(pool):\n    pool = Subset(pool, [1])\n    return pool\n"
    assert lines(script, pools=pools) == [("pools.py", 2)]


def test_what_is_wrapped_once_is_not_named():
    assert lines("pool = Subset(pool, chosen)\nfor x in DataLoader(pool):\n    train(x)") == []
    assert lines("pool = Subset(pool,") == []


@pytest.mark.parametrize("imported", ["import pools", "from . import pools", "from .pools import narrow"])
def test_a_module_is_followed_however_it_is_imported(imported):
    script = f"{imported}\nfor _ in range(9):\n    pool = pools.narrow(pool)\n"
    assert lines(script, pools="def narrow(pool):\n    return Subset(pool, [1])\n") == [("pools.py", 2)]
