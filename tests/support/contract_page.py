"""Draws docs/reliability.md: every row of the contract, with the tests that are marked to show it.

Marks are read off the source, so that drawing the page imports no test, and no torch.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.contract import ATTACKS, PARTS, Attack, Part, Promise

MARK = "pytest.mark.shows"
HEAD = """# Reliability

What happens to a script under `perfdoctor run` when things are odd or go wrong, and which test shows it. Rows and tests are
held against each other: a row without a test says what is missing, and this page is written from both
(`python docs/pages.py`). `pytest` runs them all; those that need a device, root or `strace` are skipped without.

*Stand-in* says what a test puts in the place of the real thing, *missing* what nobody has shown.
"""

AT_LENGTH = """## At length

What tests do in seconds, these scripts do for as long as they are let. Each tells an input by a seed and a number, so that it can be
repeated alone. *Found* is of the last time, on two busy cores, with Python 3.11 and torch 2.13; [Long runs](long-runs.md) has what
watching takes of memory and files over many steps.

| script | what it does | found |
|---|---|---|
"""


class MarkedTest(NamedTuple):
    """A test that shows rows."""

    file: str  # below tests/
    name: str

    @property
    def sentence(self) -> str:
        """The name as it is meant to be read."""
        return self.name.removeprefix("test_").replace("_", " ")


def shown(tests: Path) -> dict[str, list[MarkedTest]]:
    """The tests below a folder by the row that they are marked to show."""
    found: dict[str, list[MarkedTest]] = defaultdict(list)
    for path in sorted(tests.rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if MARK not in source:
            continue
        for function in ast.parse(source).body:
            if isinstance(function, ast.FunctionDef):
                for row in _rows(function):
                    found[row].append(MarkedTest(path.relative_to(tests).as_posix(), function.name))
    return dict(found)


def _rows(function: ast.FunctionDef) -> Iterator[str]:
    for mark in function.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == MARK:
            yield from (ast.literal_eval(word) for word in mark.args)


def page(tests: Path) -> str:
    """The page, from the contract and the marks of the tests."""
    marked = shown(tests)
    parts = [HEAD, *(_part(part, marked) for part in PARTS), AT_LENGTH + "\n".join(map(_attack, ATTACKS))]
    return "\n".join(parts).rstrip() + "\n"


def _attack(attack: Attack) -> str:
    return f"| `python {attack.command}` | {attack.does} | {attack.found} |"


def _part(part: Part, marked: Mapping[str, Sequence[MarkedTest]]) -> str:
    lines = [f"## {part.title}", "", *([part.about, ""] if part.about else [])]
    lines += ["| case | what you see | what perfdoctor does | shown by |", "|---|---|---|---|"]
    for row in part.rows:
        cells = (f"{row.case} (`{row.name}`)", row.user, row.ours, _proof(row, marked.get(row.name, ())))
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*lines, ""])


def _proof(row: Promise, tests: Sequence[MarkedTest]) -> str:
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        by_file[test.file].append(test.sentence)
    said = [f"`{file}`: {'; '.join(sentences)}" for file, sentences in by_file.items()]
    said += [f"*Stand-in: {row.stand_in}.*"] if row.stand_in else []
    said += [f"*Missing: {row.missing}.*"] if row.missing else []
    return "<br>".join(said)
