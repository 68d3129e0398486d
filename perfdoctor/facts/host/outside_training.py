"""Tells which stacks are of what a script does before it trains, or after it has: samples have no times.

A function trains in some of its lines and outermost loops. What it does before the first of these, or after
the last, is in no step, unless a loop further out comes back to it: a test after the last epoch, a pass over
the data before the first. What lies between two of them is in a step, as the timers have it, too.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from perfdoctor.facts.host.anchors import (
    MOSTLY,
    OF_STEPS,
    TORN,
    TORN_OF_LINE,
    UPDATING,
    CodePlace,
    FrameStack,
)
from perfdoctor.facts.user_source.frames import Frame, Owner, wrapped
from perfdoctor.facts.user_source.intervals import Intervals
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Phase

# Samples of passes: were it a loop that trains, some would be of updates. Where these take a fifth of a step,
# all of so many miss them once in a hundred times.
ENOUGH = 20

Scope = tuple[str, int]  # file, first line of the function; 0: the module


@dataclass(frozen=True)
class Region:
    """An outermost loop of a function, or a line of it in none."""

    scope: Scope
    first: int
    last: int
    is_loop: bool


class OutsideTraining:
    """What lies before and after the training of the functions around its outermost loop."""

    def __init__(self, main: Sequence[FrameStack], sources: Sources, intervals: Intervals) -> None:
        self._sources, self._intervals = sources, intervals
        self._nodes: dict[Region, ast.stmt] = {}
        self._regions: dict[tuple[str, int], Region | None] = {}
        self._verdicts: dict[tuple[str, str, int], bool | None] = {}
        self._scopes: set[Scope] = set()  # those around the outermost loop that trains, its own included
        self._passed, self._validated = Counter[Region](), Counter[Region]()
        self._steps, self._updated = Counter[Region](), Counter[Region]()
        loops = self._loops_of_libraries(main)
        self._calling: frozenset[CodePlace] = frozenset()  # those of no source that only lead to such a loop
        self._training: frozenset[CodePlace] = frozenset()  # the others that lead to updates
        self._find_scopes(main, loops)
        self._count(main)
        self._trained: dict[Scope, list[Region]] = defaultdict(list)
        for region in self._updated:
            if self._trains(region):
                self._trained[region.scope].append(region)

    def holds(self, frames: Sequence[Frame]) -> bool:
        """Whether a stack is of what its script does before it trains, or after."""
        for frame in frames if self._scopes else ():
            verdict = self._verdict(frame)
            if verdict is not None:
                return verdict
        return False

    def only_calls(self, place: CodePlace) -> bool:
        """Whether a function of no source, such as a launcher's, has called what trains in a known loop."""
        return place in self._calling

    def _verdict(self, frame: Frame) -> bool | None:
        """Whether a frame puts its stack outside; None where frames further in may."""
        key = frame.file, frame.name, frame.line
        if key not in self._verdicts:
            region = self._region(frame)
            if region is not None:
                self._verdicts[key] = self._is_outside(region)
            else:
                self._verdicts[key] = False if key[:2] in self._training else None
        return self._verdicts[key]

    def _is_outside(self, region: Region) -> bool | None:
        trained = self._trained.get(region.scope)
        if not trained:
            return None
        if region in trained:
            return False if region.is_loop else None
        if min(one.first for one in trained) < region.first < max(one.first for one in trained):
            return False
        if self._only_passes(region):
            return True
        return None if self._intervals.makes_updates(region.scope[0], self._nodes[region]) else True

    def _only_passes(self, region: Region) -> bool:
        """Whether samples alone tell that it tests, whatever the functions that it calls can do else."""
        steps = self._steps[region]
        if steps >= ENOUGH:
            return self._updated[region] < TORN_OF_LINE * steps
        return not region.is_loop and 0 < steps == self._validated[region]

    def _trains(self, region: Region) -> bool:
        """Whether updates pass through it; a few samples of them may owe that to a torn stack."""
        updated, steps = self._updated[region], self._steps[region]
        of_scope = sum(count for one, count in self._updated.items() if one.scope == region.scope)
        many = steps >= ENOUGH or updated >= TORN_OF_LINE * self._passed[region]
        return (many and updated >= TORN * steps) or updated > MOSTLY * of_scope

    def _loops_of_libraries(self, main: Iterable[FrameStack]) -> set[CodePlace]:
        """Functions of no source that lead to phases by several of their lines.

        Those have a loop, or a part of it, while a launcher calls the script from one line.
        """
        lines: dict[CodePlace, Counter[int]] = defaultdict(Counter)
        for frames, count in main:
            phases = wrapped(frames)
            for frame in frames[: phases[-1]] if phases else ():
                if self._is_closed(frame):
                    lines[frame.file, frame.name][frame.line] += count
        return {
            place
            for place, found in lines.items()
            if sum(count >= TORN * found.total() for count in found.values()) > 1
        }

    def _find_scopes(self, main: Iterable[FrameStack], loops: set[CodePlace]) -> None:
        """The functions from the outside in up to the outermost loop that leads to updates."""
        calling, updating = Counter[CodePlace](), Counter[CodePlace]()
        for frames, count in main:
            steps = _steps(frames)
            if not steps or frames[steps[-1]].phase not in UPDATING:
                continue
            around = frames[: steps[-1]]
            updating.update({_place(frame): count for frame in around if self._is_closed(frame)})
            entry = next((index for index, frame in enumerate(around) if self._loops(frame, loops)), None)
            for frame in around[: entry + 1] if entry is not None else ():
                region = self._region(frame)
                if region is not None:
                    self._scopes.add(region.scope)
                elif self._is_closed(frame) and _place(frame) not in loops:
                    calling[_place(frame)] += count
        mostly = {place for place, count in calling.items() if count > MOSTLY * updating[place]}
        self._calling, self._training = frozenset(mostly), frozenset(updating.keys() - mostly)

    def _loops(self, frame: Frame, loops: set[CodePlace]) -> bool:
        region = self._region(frame)
        return region.is_loop if region is not None else self._is_closed(frame) and _place(frame) in loops

    def _count(self, main: Iterable[FrameStack]) -> None:
        """Count the samples that pass through each region of those functions."""
        files = {file for file, _ in self._scopes}
        for frames, count in main:
            steps = _steps(frames)
            phase = frames[steps[-1]].phase if steps else None
            around = {self._region(frame) for frame in frames if frame.file in files}
            for region in around:
                if region is None or region.scope not in self._scopes:
                    continue
                self._passed[region] += count
                self._steps[region] += count if steps else 0
                self._updated[region] += count if phase in UPDATING else 0
                self._validated[region] += count if phase is Phase.VALIDATION else 0

    def _is_closed(self, frame: Frame) -> bool:
        """Whether it is of a function whose source is not there, and that may have a loop of its own."""
        if frame.owner is Owner.USER:
            return not self._sources.file(frame.file).lines
        return frame.owner is Owner.LIBRARY

    def _region(self, frame: Frame) -> Region | None:
        """The part of its function that a frame of the user's is in."""
        key = frame.file, frame.line
        if frame.owner is not Owner.USER:
            return None
        if key not in self._regions:
            self._regions[key] = self._found(*key)
        return self._regions[key]

    def _found(self, file: str, line: int) -> Region | None:
        listing = self._sources.file(file)
        loop = listing.outermost_loop(line) or listing.comprehension(line)
        node = loop or listing.statement(line)
        if node is None:
            return None
        body = getattr(node, "body", None)
        last = body[0].lineno - 1 if body and loop is None else node.end_lineno
        scope = file, getattr(listing.scope(line), "lineno", 0)
        region = Region(scope, node.lineno, max(last or 0, node.lineno), loop is not None)
        self._nodes[region] = node
        return region


def _place(frame: Frame) -> CodePlace:
    return frame.file, frame.name


def _steps(frames: Sequence[Frame]) -> list[int]:
    """The frames that stand for a phase of the step, from the outermost in."""
    return [index for index in wrapped(frames) if frames[index].phase in OF_STEPS]
