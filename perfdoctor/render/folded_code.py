"""Folds lines of code into a few columns so that what is copied from there still runs.

A comment goes on below its own `#`, or moves above its line; code breaks inside brackets, and elsewhere
behind a backslash, but never within a string. A line that has no such place stays as long as it is.
"""

from __future__ import annotations

import io
import textwrap
import tokenize
from collections.abc import Iterator, Sequence
from itertools import pairwise

from perfdoctor.model.dataclass import dataclass

COMMENT_COLUMNS = 24  # beside its code; with fewer, a comment is a column of single words
DEEPER = 4  # columns by which the rest of a broken line is indented
APART = "  "  # between code and its comment
GOES_ON = " \\"
SHELL = "shell"


@dataclass(frozen=True)
class BreakPlace:
    """A column before which a line may end.

    `quality`: 2 behind a comma, 1 elsewhere in brackets, 0 outside of them, where it takes a backslash.
    """

    column: int
    quality: int


@dataclass(frozen=True)
class LineParts:
    """Where a line may be broken, and where its comment begins."""

    places: tuple[BreakPlace, ...] = ()
    comment: int | None = None
    whole: bool = False  # it holds a part of a string of several lines, or goes on an earlier one's backslash


def folded(code: str, columns: int, language: str = "python") -> list[str]:
    """The lines of code, those that are longer broken into several of at most so many columns."""
    lines = code.split("\n")
    parts = _shell_parts(lines) if language == SHELL else _python_parts(code)
    return [
        new
        for line, of_line in zip(lines, parts, strict=True)
        for new in ([line] if len(line) <= columns or of_line.whole else _broken(line, of_line, columns))
    ]


def _broken(line: str, parts: LineParts, columns: int) -> Iterator[str]:
    """One line as several."""
    indent = line[: len(line) - len(line.lstrip())]
    if parts.comment is None:
        yield from _broken_code(line, indent, parts.places, columns)
        return
    comment, code = line[parts.comment :].lstrip("#").strip(), line[: parts.comment].rstrip()
    beside = code + APART
    if code and len(code) <= columns and columns - len(beside) >= COMMENT_COLUMNS:
        first, *rest = _comment(comment, columns - len(beside))
        yield beside + first
        yield from (" " * len(beside) + each for each in rest)
        return
    yield from (indent + each for each in _comment(comment, columns - len(indent)))
    if code:
        yield from _broken_code(code, indent, parts.places, columns)


def _comment(words: str, columns: int) -> list[str]:
    """A comment in lines that are comments each; a word that is too long stays whole."""
    width = max(columns, len("# x"))
    lines = textwrap.wrap(words, width - len("# "), break_long_words=False, break_on_hyphens=False)
    return [f"# {line}" for line in lines] or ["#"]


def _broken_code(code: str, indent: str, places: Sequence[BreakPlace], columns: int) -> Iterator[str]:
    """Code without its comment, broken as late as fits: behind a comma, else in brackets, else anywhere."""
    begin, before = 0, ""
    deeper = indent + " " * DEEPER
    while len(before) + len(code) - begin > columns:
        room = columns - len(before) + begin
        fitting = [
            place
            for place in places
            if begin + len(indent) < place.column <= room - (0 if place.quality else len(GOES_ON))
        ]
        if not fitting:
            break
        end = max(fitting, key=lambda place: (place.quality, place.column))
        yield before + code[begin : end.column].rstrip() + ("" if end.quality else GOES_ON)
        begin = end.column + len(code[end.column :]) - len(code[end.column :].lstrip())
        before, indent = deeper, ""
    yield before + code[begin:]


# ---------------------------------------------------------------- Python


def _python_parts(code: str) -> list[LineParts]:
    """For each line, as far as the code is Python: what an unfinished statement holds is known, too."""
    count = code.count("\n") + 1
    places: list[list[BreakPlace]] = [[] for _ in range(count)]
    comments: dict[int, int] = {}
    tokens = list(_tokens(code))
    whole = {line for first, last in _strings(tokens) for line in range(first, last + 1) if first != last}
    depth = in_string = 0
    for token, following in pairwise(tokens):
        kind, row = tokenize.tok_name[token.type], token.end[0] - 1
        if kind == "COMMENT":
            comments[row] = token.start[1]
        if kind == "OP" and not in_string:
            depth += (token.string in "([{") - (token.string in ")]}")
        in_string += kind.endswith("STRING_START") - kind.endswith("STRING_END")
        follows = tokenize.tok_name[following.type] not in {"NEWLINE", "NL", "COMMENT", "ENDMARKER"}
        if not follows or in_string or following.start[0] != token.end[0]:
            continue
        spaced = following.start[1] > token.end[1]
        opens = token.string in "([{" and following.string not in ")]}"
        if depth and (spaced or opens):
            places[row].append(BreakPlace(token.end[1], 2 if token.string == "," else 1))
        elif spaced and kind not in {"INDENT", "DEDENT"}:
            places[row].append(BreakPlace(token.end[1], 0))
    lines = code.split("\n")
    whole |= {at for row, line in enumerate(lines) if line.endswith("\\") for at in (row, row + 1)}
    return [LineParts(tuple(places[row]), comments.get(row), row in whole) for row in range(count)]


def _tokens(code: str) -> Iterator[tokenize.TokenInfo]:
    """The tokens up to where the code is no Python, or ends in the middle of a statement."""
    try:
        yield from tokenize.generate_tokens(io.StringIO(code).readline)
    except (tokenize.TokenError, SyntaxError):
        return


def _strings(tokens: Sequence[tokenize.TokenInfo]) -> Iterator[tuple[int, int]]:
    """The first and the last line of each string, counted from 0."""
    begun: list[int] = []
    for token in tokens:
        kind = tokenize.tok_name[token.type]
        if kind == "STRING":
            yield token.start[0] - 1, token.end[0] - 1
        elif kind.endswith("STRING_START"):
            begun.append(token.start[0] - 1)
        elif kind.endswith("STRING_END") and begun:
            yield begun.pop(), token.end[0] - 1


# ---------------------------------------------------------------- shell


def _shell_parts(lines: Sequence[str]) -> Iterator[LineParts]:
    """Spaces outside of quotes: behind a backslash, a command goes on in the next line."""
    quote = ""
    for line in lines:
        begun, places = quote, []
        escaped = False
        for column, letter in enumerate(line):
            if escaped or (letter == "\\" and quote != "'"):
                escaped = not escaped
            elif letter == "#" and not quote and (not column or line[column - 1] == " "):
                break  # a comment ends with its line, whatever stands before that
            elif quote:
                quote = "" if letter == quote else quote
            elif letter in "'\"":
                quote = letter
            elif letter == " " and column and line[column - 1] != " ":
                places.append(BreakPlace(column, 0))
        yield LineParts(tuple(places), whole=bool(begun or quote))
