"""Knows the words in what a line is about: in the names that it calls, sets or goes through."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from perfdoctor.facts.user_source.origins import dotted
from perfdoctor.facts.user_source.parse import names_in, parsed_line

PIECES = re.compile(r"[A-Z]*[a-z0-9]+|[A-Z0-9]+")  # of `BinaryAccuracy`, `evalModel`, `AUROC`


def is_about(pattern: re.Pattern[str], text: str | None, *names: str | None) -> bool:
    """Whether a word of these names, or of what a line is about, begins with the pattern.

    A line's arguments do not count: `action = agent.act(state.to(self.device))` is about no device.
    """
    every = [*_names(text or ""), *(name for name in names if name)]
    return any(pattern.match(word) for name in every for word in _words(name))


def _names(text: str) -> Iterator[str]:
    tree = parsed_line(text)
    if tree is None:  # the first line of several
        yield text.partition("(")[0]
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield dotted(node.func)
        elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield dotted(node.value)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            yield from names_in(node.iter)


def _words(name: str) -> Iterator[str]:
    """`val`, `loss` of `val_loss`; a part in mixed case also by itself, as `mIoU`."""
    for part in re.findall(r"[^\W_]+", name):
        yield part.lower()
        yield from (piece.lower() for piece in PIECES.findall(part))
