"""Finds the user's functions that a library calls back, for the line of the user's that called the library.

What the library itself takes between that line and the function (`np.vectorize`, `Series.apply`, `re.sub`
with a function, `sorted` with a key) is paid for each call of the function: it goes when those go.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import Sources, header

UserFunction = tuple[str, str]  # file, name as the stacks have it
# The calling line, the library's frames, the user's function.
Passage = tuple[Frame, tuple[Frame, ...], Frame]
# The library's function that the line calls; None: it is in C, without a frame.
Entry = tuple[str, str] | None


class CalledFunctions:
    """The functions that were seen called back."""

    def __init__(self, stacks: Iterable[tuple[Sequence[Frame], int]], sources: Sources) -> None:
        self._sources = sources
        # By the frames from the calling line up to where the function was called, or a part of the way.
        self._on_the_way: dict[tuple[Frame, ...], Counter[UserFunction]] = defaultdict(Counter)
        # By the calling line and what it calls, where the line itself hands the function over.
        self._handed: dict[tuple[Frame, Entry], Counter[UserFunction]] = defaultdict(Counter)
        for frames, count in stacks:
            for calling, between, function in _passages(frames):
                called = function.file, function.function
                for reached in range(1, len(between) + 1):
                    way = (calling, *between[:reached])
                    self._on_the_way[way][called] += count
                if self._hands_over(calling, function):
                    self._handed[calling, _entry(between)][called] += count

    def of(self, calling: Frame, beyond: Sequence[Frame]) -> UserFunction | None:
        """The function on whose behalf a library is at work in these frames beyond a user's line, or None."""
        found = self._handed.get((calling, _entry(beyond))) or self._on_the_way.get((calling, *beyond))
        return found.most_common(1)[0][0] if found else None

    def _hands_over(self, calling: Frame, function: Frame) -> bool:
        """Whether the line gives that function to what it calls."""
        node = self._sources.file(calling.file).statement(calling.line)
        return any(
            _names(given, function.name)
            for part in (header(node) if node else ())
            for call in ast.walk(part)
            if isinstance(call, ast.Call)
            for given in (*call.args, *(keyword.value for keyword in call.keywords))
        )


def _passages(frames: Sequence[Frame]) -> Iterator[Passage]:
    """The ways from a line of the user's to the next function of theirs, with what is between."""
    indices = [index for index, frame in enumerate(frames) if frame.owner is Owner.USER]
    for first, last in pairwise(indices):
        calling, function = frames[first], frames[last]
        if (calling.file, calling.function) != (function.file, function.function):
            yield calling, tuple(frames[first + 1 : last]), function


def _entry(between: Sequence[Frame]) -> Entry:
    return (between[0].file, between[0].function) if between else None


def _names(given: ast.expr, function: str) -> bool:
    if isinstance(given, ast.Lambda):
        return function == "<lambda>"
    name = (
        given.id if isinstance(given, ast.Name) else given.attr if isinstance(given, ast.Attribute) else None
    )
    return name == function
