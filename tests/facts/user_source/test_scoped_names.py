from __future__ import annotations

import ast
from textwrap import dedent

from perfdoctor.facts.user_source.parse import Listing
from perfdoctor.facts.user_source.scoped_names import MARK, original, scoped


def text(source: str) -> str:
    tree = scoped(Listing(dedent(source).strip("\n").split("\n"))).tree
    assert tree is not None
    return ast.unparse(tree).replace(MARK, "@")


def test_local_names_bear_the_line_of_their_function():
    source = """
    total = 0
    def first(x):
        total = x
        return total
    def second(self, items):
        total = [item for item in items]
        self.total = total
        logger = make()
    """
    assert text(source) == dedent("""
    total = 0

    def first(x):
        total@2 = x
        return total@2

    def second(self, items):
        total@5 = [item@5 for item@5 in items]
        self.total = total@5
        logger = make()
    """).strip("\n")


def test_functions_inside_see_the_names_around_them_and_have_their_own():
    source = """
    def outer(x):
        y = x
        def inner(z):
            w = y + z
            return lambda y: y + w
        def other(y):
            return y
        def counts():
            nonlocal n
            n = 1
        n = 0
    """
    assert text(source) == dedent("""
    def outer(x):
        y@1 = x

        def inner(z):
            w@3 = y@1 + z
            return lambda y: y + w@3

        def other(y):
            return y

        def counts():
            nonlocal n
            n = 1
        n = 0
    """).strip("\n")


def test_the_names_can_be_had_back():
    assert original(f"step{MARK}10 % self.every == x[a{MARK}10:5]") == "step % self.every == x[a:5]"


def test_what_does_not_parse_has_no_tree():
    assert scoped(Listing(["def ("])).tree is None
