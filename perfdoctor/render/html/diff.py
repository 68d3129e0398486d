"""A change by hand as a diff of the user's own lines, where it sets arguments of a call that stands there."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence

from perfdoctor.model.dataclass import dataclass

LONGEST = 6  # lines of a call that is written over several


@dataclass(frozen=True)
class DiffLine:
    """A line as it is (−), as it would be (+), or both; `changed` stands between `before` and `after`."""

    sign: str
    before: str
    changed: str = ""
    after: str = ""


def diff(code: str, lines: Sequence[str]) -> tuple[DiffLine, ...]:
    """What `code`, as in `DataLoader(..., num_workers=2)` or `batch_size=64`, makes of these lines.

    Nothing where the code sets no arguments, or the statement that begins in the first line has no such call.
    """
    asked = _asked(code)
    if asked is None:
        return ()
    name, wanted = asked
    for count in range(1, min(len(lines), LONGEST) + 1):
        before = textwrap.dedent("\n".join(lines[:count])).split("\n")
        parsed = _parsed("\n".join(before))
        if parsed is None:
            continue  # a statement that goes on in the next line
        call = _call(parsed, name, wanted)
        after = _changed(before, call, wanted) if call is not None else None
        return tuple(_lines(before, after)) if after is not None else ()
    return ()


def _lines(before: list[str], after: list[str]) -> Iterator[DiffLine]:
    """Line by line, what changed in each apart from what did not."""
    for old, new in zip(before, after, strict=True):
        if old == new:
            yield DiffLine("", old)
            continue
        head = _same(old, new)
        tail = _same(old[head:][::-1], new[head:][::-1])
        for sign, line in (("−", old), ("+", new)):
            end = len(line) - tail
            yield DiffLine(sign, line[:head], line[head:end], line[end:])


def _same(one: str, other: str) -> int:
    """How many letters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _asked(code: str) -> tuple[str, dict[str, str]] | None:
    """The name of the call, empty where any will do, and the arguments to set."""
    try:
        (statement,) = ast.parse(code).body
    except (SyntaxError, ValueError):
        return None
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return "", {statement.targets[0].id: ast.unparse(statement.value)}
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    keywords = {word.arg: ast.unparse(word.value) for word in call.keywords if word.arg is not None}
    return (_name(call), keywords) if keywords else None


def _parsed(text: str) -> ast.Module | None:
    """The lines as a statement; where they open a block, it gets one that is empty."""
    for source in (text, f"{text}\n    pass"):
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _call(parsed: ast.Module, name: str, wanted: dict[str, str]) -> ast.Call | None:
    """The only call that is meant."""
    calls = [node for node in ast.walk(parsed) if isinstance(node, ast.Call)]
    if name:
        meant = [call for call in calls if _name(call) == name]
    else:
        meant = [call for call in calls if wanted.keys() <= {word.arg for word in call.keywords}]
    return meant[0] if len(meant) == 1 else None


def _changed(lines: list[str], call: ast.Call, wanted: dict[str, str]) -> list[str] | None:
    """The lines with these arguments replaced, or added behind the last one.

    None where nothing changes, or what comes out is not what was meant, as in odd parentheses.
    """
    edits = []
    there = {word.arg: word.value for word in call.keywords if word.arg in wanted}
    for name, old in there.items():
        if name is not None and old.lineno == old.end_lineno:
            edits.append((old.lineno, old.col_offset, old.end_col_offset or 0, wanted[name]))
    added = ", ".join(f"{name}={value}" for name, value in wanted.items() if name not in there)
    given = [*call.args, *(word.value for word in call.keywords)]
    line, column = max(
        ((value.end_lineno or 0, value.end_col_offset or 0) for value in given),
        default=(call.func.end_lineno or 0, (call.func.end_col_offset or 0) + 1),
    )
    if added:
        edits.append((line, column, column, f", {added}" if given else added))
    changed = list(lines)
    for number, begin, end, text in sorted(edits, reverse=True):  # columns before an edit stay as they are
        encoded = changed[number - 1].encode()  # they count bytes
        changed[number - 1] = (encoded[:begin] + text.encode() + encoded[end:]).decode()
    return changed if changed != lines and _sets(changed, _name(call), wanted) else None


def _sets(lines: list[str], name: str, wanted: dict[str, str]) -> bool:
    """Whether a call of that name in these lines has the arguments."""
    parsed = _parsed("\n".join(lines))
    calls = [node for node in ast.walk(parsed) if isinstance(node, ast.Call)] if parsed else []
    return any(
        wanted.items() <= {word.arg or "": ast.unparse(word.value) for word in call.keywords}.items()
        for call in calls
        if _name(call) == name
    )
