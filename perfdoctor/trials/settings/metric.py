"""A figure that the script prints, found by the user's regular expression: `--metric 'acc: ([0-9.]+)'`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from perfdoctor.errors import PerfdoctorError

EXAMPLE = "--metric 'acc: ([0-9.]+)'"
# To a terminal: colours, which may begin right before a figure.
ORDERS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SPECIAL = frozenset(".^$*+?{}[]|()\\")  # without any of these, an expression matches only itself
LONGEST_LINE = 100_000  # characters; what is written without line breaks is cut there


def pattern(words: str) -> re.Pattern[str]:
    """The expression that was asked for. Raises PerfdoctorError where it is none, or shows no one figure."""
    try:
        expression = re.compile(words)
    except re.error as error:
        raise PerfdoctorError(
            f"--metric {words}: not a regular expression: {error}", f"write it like {EXAMPLE}"
        ) from None
    if expression.groups > 1:
        raise PerfdoctorError(
            f"--metric {words}: it has {expression.groups} groups, but only one can be the figure",
            f"write the others as (?:...), and the figure like {EXAMPLE}",
        )
    if SPECIAL.isdisjoint(words):
        raise PerfdoctorError(
            f"--metric {words}: it matches these words and no figure",
            f"write the figure behind them in brackets, like {EXAMPLE}",
        )
    return expression


def values(log: Path, wanted: re.Pattern[str]) -> tuple[float, ...]:
    """The figures in a log, in the order in which they were printed; the last one is the one that counts."""
    figures = (_figure(word) for word in _words(log, wanted))
    return tuple(figure for figure in figures if figure is not None)


def _words(log: Path, wanted: re.Pattern[str]) -> Iterator[str]:
    """What matched: the group, or all of it where there is none."""
    for line in _lines(log):
        for match in wanted.finditer(line):
            yield match[wanted.groups] or ""


def _lines(log: Path) -> Iterator[str]:
    """The lines of a log as a reader saw them; those of a progress bar follow each other without a break."""
    try:
        with open(log, encoding="utf-8", errors="replace") as file:  # \r ends a line, too
            while line := file.readline(LONGEST_LINE):
                yield ORDERS.sub("", line)
    except FileNotFoundError:
        return


def _figure(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
