"""Adds stacks up into a tree and lays its frames out, few enough of them to be drawn."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from itertools import islice

from perfdoctor.facts.user_source.frames import Owner, parse
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.flame import FrameOwner

NARROW = 0.001  # of the whole: narrower frames are folded together
DEEPEST = 120  # frames; what lies below is part of the last one
LONGEST = 60  # letters of a name, or of the end of its place
INSTALLED = re.compile(r".*[/\\](?:(?:site|dist)-packages|python\d[^/\\]*)[/\\]")
OWNERS: dict[Owner, FrameOwner] = {Owner.USER: "user", Owner.TORCH: "torch", Owner.LIBRARY: "library"}

Key = tuple[str, str, FrameOwner]  # name, place, owner
Weight = Callable[[Mapping[str, float]], float]  # how wide amounts make a frame


@dataclass
class CallTree:
    """Amounts by name, of a frame and all that it calls."""

    amounts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    below: dict[Key, CallTree] = field(default_factory=dict)

    def add(self, keys: Iterable[Key], amounts: Mapping[str, float]) -> None:
        """Add a stack, from the outermost frame in."""
        node = self
        node._grow(amounts)
        for key in islice(keys, DEEPEST):
            node = node.below.setdefault(key, CallTree())
            node._grow(amounts)

    def _grow(self, amounts: Mapping[str, float]) -> None:
        for name, amount in amounts.items():
            self.amounts[name] += amount


@dataclass(frozen=True)
class LaidFrame:
    """Where a frame lies, as shares of the whole; `folded` frames that are too narrow stand together."""

    key: Key
    depth: int
    left: float
    width: float
    amounts: Mapping[str, float]


def key_of(text: str, cwd: str, with_line: bool = True) -> Key:
    """What makes frames the same: in the user's code the line too, elsewhere the function."""
    frame = parse(text)
    if frame is None:
        return text[:LONGEST], "", "library"
    if frame.owner is Owner.USER:
        file = (frame.file.removeprefix(cwd.rstrip("/") + "/") if cwd else frame.file)[-LONGEST:]
        return frame.function[:LONGEST], f"{file}:{frame.line}" if with_line else file, "user"
    place = INSTALLED.sub("", frame.file)[-LONGEST:]
    return frame.function[:LONGEST], place, OWNERS.get(frame.owner, "library")


def laid_out(root: CallTree, weight: Weight, most: int) -> Iterator[LaidFrame]:
    """The frames that are wide enough, callers before what they call, left to right.

    Those that are not stand together beside their siblings; beyond `most` frames the narrowest are not.
    """
    whole = weight(root.amounts)
    if whole <= 0:
        return
    widths = sorted((weight(node.amounts) for node in _nodes(root)), reverse=True)
    least = NARROW * whole
    if len(widths) > most:
        least = max(least, min((width for width in widths[:most] if width > widths[most]), default=whole))
    yield from _below(root, weight, 0, 0.0, whole, least)


def _nodes(root: CallTree) -> Iterator[CallTree]:
    ahead = [root]
    while ahead:
        node = ahead.pop()
        ahead.extend(node.below.values())
        yield node


def _below(
    node: CallTree, weight: Weight, depth: int, left: float, whole: float, least: float
) -> Iterator[LaidFrame]:
    narrow: list[Mapping[str, float]] = []
    at = left
    for key, below in sorted(node.below.items(), key=lambda item: (-weight(item[1].amounts), item[0])):
        wide = weight(below.amounts)
        if wide < least:
            narrow.append(below.amounts)
            continue
        yield LaidFrame(key, depth, at / whole, wide / whole, below.amounts)
        yield from _below(below, weight, depth + 1, at, whole, least)
        at += wide
    together = CallTree()
    for amounts in narrow:
        together.add((), amounts)
    wide = weight(together.amounts)
    if narrow and wide >= NARROW * whole:
        name = f"{len(narrow)} narrow frames" if len(narrow) > 1 else "1 narrow frame"
        yield LaidFrame((name, "", "folded"), depth, at / whole, wide / whole, together.amounts)
