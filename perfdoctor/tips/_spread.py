"""Finds the call that time is spread below: of one function at one line, in which no line takes most."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from perfdoctor.facts.host.suspects import Suspect, SuspectFacts
from perfdoctor.model.coverage import Place
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase

MOST = 0.5  # of what a call takes: a line with more of it is what there is to look at
NEARLY_ALL = 0.8  # and so are a few lines that are one piece of work, with more than this
Part = tuple[Suspect, float]  # with the share of the step that no other finding is about
# Frames of a function's own: what runs in them was written where they are called.
INNER_FRAMES = re.compile(r"<\w+>$")


@dataclass(frozen=True)
class UserCall:
    """One function, called at one line."""

    phase: Phase
    at: Place
    file: str  # of the function
    function: str


@dataclass(frozen=True)
class SpreadCall:
    """A call with all time below it."""

    at: Location
    function: str  # by its own name
    parts: tuple[Part, ...]
    lines: tuple[tuple[Location, float], ...]  # innermost lines below it, the costliest first


def spread_call(
    top: Suspect, parts: Sequence[Part], suspects: SuspectFacts, around: frozenset[Place]
) -> SpreadCall | None:
    """The call above a line that no line below it takes most of; None where there is none.

    It goes outwards from the innermost line of `top`, up to a line that calls several functions, or calls the
    next one by no name: hooks, modules, items. `around`: lines that whole steps run below.
    """
    below: dict[UserCall, list[Part]] = defaultdict(list)
    for part in parts:
        for call in {call for call, _ in _calls(part[0])}:
            below[call].append(part)
    called: dict[Place, set[tuple[str, str]]] = defaultdict(set)
    for suspect in suspects.suspects:
        for call, _ in _calls(suspect):
            called[call.at].add((call.file, call.function))
    found, least = None, 0.0
    for call, at in _calls(top):
        name = call.function.rpartition(".")[2]
        if call.at in around or len(called[call.at]) > 1 or not _names(at, name):
            break
        share, lines = sum(share for _, share in below[call]), _lines(below[call])
        together = _most_together(below[call], suspects)
        if MOST * share >= max(least, lines[0][1]) and NEARLY_ALL * share >= together > 0:
            found, least = SpreadCall(at, name, tuple(below[call]), lines), share
    return found


def _calls(suspect: Suspect) -> Iterator[tuple[UserCall, Location]]:
    """The calls of the user's functions that lead to it, from the innermost out, each with its line."""
    for outer, inner in reversed(list(pairwise(suspect.path))):
        function = inner.function or ""
        if not INNER_FRAMES.search(function) and (outer.file, outer.line) != (inner.file, inner.line):
            yield UserCall(suspect.phase, (outer.file, outer.line), inner.file, function), outer


def _names(at: Location, function: str) -> bool:
    """Whether a line calls a function by its name."""
    return re.search(rf"\b{re.escape(function)}\(", at.statement or "") is not None


def _most_together(parts: Sequence[Part], suspects: SuspectFacts) -> float:
    """The share of the innermost lines that are one piece of work and take most."""
    shares: dict[Place, float] = defaultdict(float)
    for suspect, share in parts:
        last = suspect.path[-1]
        shares[last.file, suspects.first(suspect.phase, last)] += share
    return max(shares.values(), default=0.0)


def _lines(parts: Sequence[Part]) -> tuple[tuple[Location, float], ...]:
    shares: dict[Place, float] = defaultdict(float)
    places: dict[Place, Location] = {}
    for suspect, share in parts:
        last = suspect.path[-1]
        shares[last.file, last.line] += share
        places.setdefault((last.file, last.line), last)
    return tuple((places[place], shares[place]) for place in sorted(shares, key=lambda each: -shares[each]))
