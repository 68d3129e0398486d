"""Adds stack samples up into the trees that the HTML report draws: Flame."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from perfdoctor.facts.recorded import recorded_stacks, sample_s
from perfdoctor.facts.user_source.frames import Owner, parse
from perfdoctor.model.flame import Flame, FlameFrame, FrameOwner
from perfdoctor.model.recorded import RecordedStack
from perfdoctor.runs.types import RunRecords

NARROW = 0.001  # of all samples: narrower frames are folded together
MOST_FRAMES, MOST_OF_WORKERS = 400, 200  # the narrowest of more are folded too: a file stays small
DEEPEST = 120  # frames; what lies below is part of the last one
LONGEST = 60  # letters of a name, or of the end of its place
WORKER = re.compile(r"worker \d+")  # the worker's main thread, not those that hand its batches over
INSTALLED = re.compile(r".*[/\\](?:(?:site|dist)-packages|python\d[^/\\]*)[/\\]")
OWNERS: dict[Owner, FrameOwner] = {Owner.USER: "user", Owner.TORCH: "torch", Owner.LIBRARY: "library"}

Key = tuple[str, str, FrameOwner]  # name, place, owner


@dataclass
class _CallTree:
    samples: int = 0
    below: dict[Key, _CallTree] = field(default_factory=dict)


def flames(records: RunRecords, rank: int | None) -> tuple[Flame, ...]:
    """A tree of the rank's training thread, by phase, and one of its loader workers; none without samples.

    Without a rank that trained, those of the lowest one.
    """
    own = records.ranks.get(min(records.ranks, default=0) if rank is None else rank)
    if own is None:
        return ()
    every, cwd = list(recorded_stacks(own)), str(records.run.get("cwd") or "")
    main = [stack for stack in every if stack.thread == "main"]
    workers = [stack for stack in every if WORKER.fullmatch(stack.thread)]
    trees = (
        ("Training process", _tree(main, cwd, True), MOST_FRAMES),
        ("Loader workers", _tree(workers, cwd, False), MOST_OF_WORKERS),
    )
    return tuple(
        Flame(name, root.samples, sample_s(own), tuple(_frames(root, most)))
        for name, root, most in trees
        if root.samples
    )


def _tree(stacks: Sequence[RecordedStack], cwd: str, by_phase: bool) -> _CallTree:
    root = _CallTree()
    for stack in stacks:
        node = root
        node.samples += stack.samples
        phase: list[Key] = [(stack.phase.replace("_", " "), "", "phase")] if by_phase else []
        for key in (*phase, *(_key(name, cwd) for name in stack.frames[:DEEPEST])):
            node = node.below.setdefault(key, _CallTree())
            node.samples += stack.samples
    return root


def _key(text: str, cwd: str) -> Key:
    """What makes frames the same: in the user's code the line too, elsewhere the function."""
    frame = parse(text)
    if frame is None:
        return text[:LONGEST], "", "library"
    if frame.owner is Owner.USER:
        file = frame.file.removeprefix(cwd.rstrip("/") + "/") if cwd else frame.file
        return frame.function[:LONGEST], f"{file[-LONGEST:]}:{frame.line}", "user"
    place = INSTALLED.sub("", frame.file)[-LONGEST:]
    return frame.function[:LONGEST], place, OWNERS.get(frame.owner, "library")


def _frames(root: _CallTree, most: int) -> Iterator[FlameFrame]:
    """The frames that are wide enough; those that are not stand together beside their siblings."""
    widths = sorted(_all_samples(root), reverse=True)
    least = max(NARROW * root.samples, widths[most] + 1 if len(widths) > most else 0)
    yield from _below(root, 0, 0, root.samples, least)


def _all_samples(root: _CallTree) -> Iterator[int]:
    ahead = [root]
    while ahead:
        node = ahead.pop()
        ahead.extend(node.below.values())
        yield node.samples


def _below(node: _CallTree, depth: int, left: int, whole: int, least: float) -> Iterator[FlameFrame]:
    narrow, at = [], left
    for key, below in sorted(node.below.items(), key=lambda item: (-item[1].samples, item[0])):
        if below.samples < least:
            narrow.append(below.samples)
            continue
        yield FlameFrame(*key, depth, at / whole, below.samples / whole, below.samples)
        yield from _below(below, depth + 1, at, whole, least)
        at += below.samples
    if narrow and sum(narrow) >= NARROW * whole:
        name = f"{len(narrow)} narrow frames" if len(narrow) > 1 else "1 narrow frame"
        yield FlameFrame(name, "", "folded", depth, at / whole, sum(narrow) / whole, sum(narrow))
