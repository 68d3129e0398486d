from __future__ import annotations

import ast
from pathlib import Path

import pytest

import perfdoctor
from perfdoctor.redaction.bare_code import bare


@pytest.mark.parametrize(
    ("code", "left"),
    [
        ("x = 1  # why\ny = 2", "x = 1  \ny = 2"),
        ('login("alice", "Cq7x53Lw")', 'login("alice", "...")'),
        ("x.to('cuda', dtype='float64')", "x.to('cuda', dtype='float64')"),
        ("x = b'a b'", "x = b'...'"),
        (r"x = r'\d+', ''", "x = r'...', ''"),
        ('"""One\ntwo.\n"""\nx = 1', '"""...\n\n"""\nx = 1'),
        ("f('a b', 'c d')  # e", "f('...', '...')  "),
        ('print(f"loss {loss.item():.3f} of {step}")', 'print(f"...{loss.item():.3f}...{step}")'),
        ("print(f\"{d['name']} {login('Cq7x 53Lw')}\")", "print(f\"{d['name']}...{login('...')}\")"),
        ("f'{f\"{x}: a b\"}'", "f'{f\"{x}...\"}'"),
        ('print(f"{{no}} {x}")', 'print(f"...{x}")'),
        ("x = 'a b' \\\n    'c d'\ny = 1", "x = '...' \\\n    '...'\ny = 1"),
        ("", ""),
    ],
)
def test_texts_and_comments_are_left_out(code, left):
    assert bare(code) == left


@pytest.mark.parametrize("code", ["x = (1", "'''", "if x:\n    y\n  z"])
def test_what_is_no_python_has_no_code(code):
    assert bare(code) is None


@pytest.mark.parametrize("folder", ["probe", "facts", "render"])
def test_the_code_stays_what_it_was_at_its_lines(folder):
    for path in sorted((Path(perfdoctor.__file__).parent / folder).rglob("*.py")):
        code = path.read_text()
        without = bare(code)
        assert without is not None
        now, before = skeleton(ast.parse(without)), skeleton(ast.parse(code))
        assert now == before, path


def skeleton(tree: ast.Module) -> list[tuple[object, ...]]:
    """What the nodes of a tree are, and on which line; texts are left out."""
    return [
        (type(node).__name__, getattr(node, "lineno", None), getattr(node, "id", getattr(node, "attr", None)))
        for node in ast.walk(tree)
        if not isinstance(node, ast.Constant | ast.expr_context)
    ]
