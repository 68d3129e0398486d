"""Source code without comments and texts, at its own lines.

What it does can still be read from it, and what it knows cannot: a password may stand in any text.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator

LEFT_OUT = "..."
# Names of types, devices, modes and columns, which say what code does.
_NAME = re.compile(r"[A-Za-z_]{0,20}\d{0,3}")
_TEXT = re.compile(r"(?s)([A-Za-z]*)('''|\"\"\"|'|\")(.*)\2")
_INNER_TEXT = re.compile(r"(?s)(?:\b[A-Za-z]{1,2})?('''|\"\"\"|'|\").*?\1")
# Texts with expressions in them come in parts: f"" from Python 3.12 on, t"" from 3.14.
_STARTS = {getattr(tokenize, name, -1) for name in ("FSTRING_START", "TSTRING_START")}
_ENDS = {getattr(tokenize, name, -1) for name in ("FSTRING_END", "TSTRING_END")}

_Place = tuple[int, int]  # line from 1, column from 0


def bare(code: str) -> str | None:
    """The code with as many lines; None where it is no Python."""
    lines = code.split("\n")
    try:
        places = list(_places(code))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return None
    for (first, begin), (last, end) in reversed(places):
        ahead, behind = lines[first - 1][:begin], lines[last - 1][end:]
        whole = "\n".join(lines[first - 1 : last])
        text = whole[begin : len(whole) - len(behind)]
        lines[first - 1 : last] = (ahead + _without_text(text) + behind).split("\n")
    return "\n".join(lines)


def _places(code: str) -> Iterator[tuple[_Place, _Place]]:
    """Where comments and texts begin and end; a text within a text belongs to it."""
    begun: list[_Place] = []
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type in _STARTS:
            begun.append(token.start)
        elif token.type in _ENDS:
            start = begun.pop()
            if not begun:
                yield start, token.end
        elif token.type in (tokenize.STRING, tokenize.COMMENT) and not begun:
            yield token.start, token.end


def _without_text(token: str) -> str:
    """A comment or a text without what it says."""
    text = _TEXT.fullmatch(token)
    if text is None:
        return ""
    prefix, quotes, said = text.groups()
    kept = _formatted(said) if {"f", "t"} & set(prefix.lower()) else _short(said)
    return f"{prefix}{quotes}{kept}{quotes}"


def _short(said: str) -> str:
    """What a text says, where it is a name, and otherwise only over how many lines."""
    return said if _NAME.fullmatch(said) else LEFT_OUT + "\n" * said.count("\n")


def _formatted(said: str) -> str:
    """A text to be filled in: the expressions in it stay."""
    kept, at = "", 0
    for begin, end in _expressions(said):
        kept += _short(said[at:begin])
        kept += _INNER_TEXT.sub(lambda inner: _without_text(inner[0]), said[begin:end])
        at = end
    return kept + _short(said[at:])


def _expressions(said: str) -> Iterator[tuple[int, int]]:
    """Where expressions in braces begin and end."""
    depth = begin = at = 0
    while at < len(said):
        if depth == 0 and said[at : at + 2] in ("{{", "}}"):
            at += 1
        elif said[at] == "{":
            begin = at if depth == 0 else begin
            depth += 1
        elif said[at] == "}" and depth:
            depth -= 1
            if depth == 0:
                yield begin, at + 1
        at += 1
