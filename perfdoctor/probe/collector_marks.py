"""Marks of the garbage collector's pauses, made by functions written in C alone.

Before a function written in Python begins, Python answers signals, and what their handlers raise inside a
callback of the collector's is printed and lost: Ctrl-C as well. So the callbacks are put together from what
Python has in C, and nothing that is marked is judged before it is read.
"""

from __future__ import annotations

import gc
import sys
from _thread import get_ident
from collections import defaultdict, deque
from functools import partial
from itertools import accumulate, chain, count, islice, repeat, takewhile
from operator import attrgetter, methodcaller
from types import CodeType, SimpleNamespace
from typing import Any, Deque, List, NamedTuple, Tuple

from .recorder import clock

FULL = 2  # the generation whose collection looks at every object there is
MARKS_MAX = 4096  # kept until they are read: a second in which nothing but small objects is made
FRAMES = 64  # of the stack below which all objects are looked at


class Pause(NamedTuple):
    """One pause: its number, when it began and ended, in which thread, and what ran there."""

    number: int
    begin_ns: int
    end_ns: int
    thread: int
    generation: int
    stacks: Tuple[Tuple[Tuple[CodeType, int], ...], ...]  # one, with lines, of a full collection; else none


class _Marking:
    """Getting one of these attributes calls what is kept under another name, with no Python between."""

    start = property(methodcaller("begin"))
    stop = property(methodcaller("end"))

    def __init__(self, begin: Any, end: Any) -> None:
        self.begin = begin
        self.end = end


class CollectorMarks:
    """What the collector calls back, and what that marked."""

    def __init__(self) -> None:
        self.marks: Deque[Tuple[Any, ...]] = deque(maxlen=MARKS_MAX)
        self.callbacks: List[Any] = []

    def listen(self) -> None:
        """Mark each collection from now on."""
        told = SimpleNamespace(stop={})  # what the collector says of the collection that has just ended
        begun = deque([clock()], maxlen=1)
        marks = zip(
            count(),
            map(begun.__getitem__, repeat(0)),
            iter(clock, None),
            iter(get_ident, None),
            _generations(told),
            _full_only(_stacks(), _generations(told)),
        )
        begin, end = map(begun.append, iter(clock, None)), map(self.marks.append, marks)
        # A collector's callback is called with "start" or "stop", and what the collector says.
        self.callbacks = [
            partial(setattr, told),
            partial(getattr, _Marking(begin.__next__, end.__next__)),
        ]
        gc.callbacks.extend(self.callbacks)

    def end(self) -> None:
        """Mark no more."""
        gc.callbacks[:] = [one for one in gc.callbacks if not any(one is ours for ours in self.callbacks)]
        self.callbacks = []

    def read(self) -> List[Pause]:
        """What was marked since it was last read, the oldest first; of very many pauses, the last ones."""
        return [Pause(*self.marks.popleft()) for _ in range(len(self.marks))]


def _generations(told: SimpleNamespace) -> Any:
    """Each next one is the generation of the collection that has just ended."""
    return map(dict.get, map(attrgetter("stop"), repeat(told)), repeat("generation"), repeat(0))


def _full_only(stacks: Any, generations: Any) -> Any:
    """Each next one is a tuple: of one stack after a full collection, of none after others."""
    return map(tuple, map(islice, repeat(stacks), map(defaultdict(int, {FULL: 1}).__getitem__, generations)))


def _stacks() -> Any:
    """Each next one is what the stack is at, inside first.

    No frame is kept: what its variables hold would live longer.
    """
    # `sys._getframe` would raise in a thread in which no Python runs.
    frames = map(dict.get, iter(sys._current_frames, None), iter(get_ident, None))
    asked = map(chain, map(repeat, frames, repeat(1)), repeat(repeat("f_back")))
    outwards = map(takewhile, repeat(bool), map(accumulate, asked, repeat(getattr)))
    lines = map(map, repeat(attrgetter("f_code", "f_lineno")), outwards)
    return map(tuple, map(islice, lines, repeat(FRAMES)))
