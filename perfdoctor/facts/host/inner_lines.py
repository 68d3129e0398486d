"""Finds the line that nearly all of the time below another one goes into, however many calls lie between."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from perfdoctor.facts.user_source.frames import Frame
from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import Listing, Sources

NEARLY_ALL = 0.8  # of the samples below a line: what remains is worth no look before that
SEEN = 10  # samples below a line: of fewer, a fifth may be chance

Way = tuple[Sequence[Frame], int]  # lines of the user's from outside in, and how often they were seen


def inner_line(ways: Iterable[Way], sources: Sources, others: Iterable[Sequence[Frame]]) -> Frame | None:
    """The innermost line that nearly all samples below one line pass through; None where they part there.

    `ways` begin with that line. A function that the caller's file calls at other lines, too, or that `others`
    pass through, is not gone into: which of its calls takes the time tells more than where in it that is.
    """
    left = list(ways)
    total = sum(count for _, count in left)
    least = NEARLY_ALL * total
    elsewhere = {(frame.file, frame.function) for frames in others for frame in frames}
    found, depth = None, 1
    while total >= SEEN:
        counted: Counter[Frame] = Counter()
        for frames, count in left:
            if len(frames) > depth:
                counted[frames[depth]] += count
        if not counted or max(counted.values()) < least:
            break
        inner = max(counted, key=lambda frame: counted[frame])
        left = [way for way in left if len(way[0]) > depth and way[0][depth] == inner]
        outer = left[0][0][depth - 1]
        if (inner.file, inner.function) in elsewhere or len(_callers_of(inner, outer, sources)) > 1:
            break
        found, depth = inner, depth + 1
    first = left[0][0][0] if left else None
    is_there = first is not None and found is not None and _place(found) == _place(first)
    return None if is_there else found


def _place(frame: Frame) -> tuple[str, int]:
    return frame.file, frame.line


def _callers_of(inner: Frame, outer: Frame, sources: Sources) -> set[int]:
    return sources.file(outer.file).once(_callers).get(inner.name, set())


def _callers(listing: Listing) -> Mapping[str, set[int]]:
    """By the name of what is called, the lines of a file that call it."""
    lines: dict[str, set[int]] = defaultdict(set)
    for node in ast.walk(listing.tree) if listing.tree is not None else ():
        if isinstance(node, ast.Call):
            lines[called_name(node)].add(node.lineno)
    return lines
