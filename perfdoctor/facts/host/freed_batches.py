"""Tells where a training loop lets go of its last batch: at the line that takes the next one.

`for batch in loader:` gives the name a new value once the next batch is there, and only then is the memory of
the one before it given back. That is done in C, at the line itself, in no frame of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from perfdoctor.facts.host.anchors import FrameStack
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import Sources, calls
from perfdoctor.model.measured import Phase

FREED = "freed"  # the kind of such time
HANDS_ON = frozenset("enumerate zip iter next islice chain cycle range len".split())  # none makes a batch


class TakingLines:
    """The lines that take batches out of a loader and do nothing else."""

    def __init__(self, main: Iterable[FrameStack], sources: Sources) -> None:
        waiting = {
            (outer.file, outer.line)
            for frames, _ in main
            for outer, inner in pairwise(frames)
            if outer.owner is Owner.USER and inner.phase is Phase.DATA_WAIT
        }
        self._lines = {place for place in waiting if _only_takes(*place, sources)}

    def frees(self, frames: Sequence[Frame]) -> bool:
        """Whether a stack ends at such a line."""
        return (frames[-1].file, frames[-1].line) in self._lines


def _only_takes(file: str, line: int, sources: Sources) -> bool:
    node = sources.file(file).statement(line)
    return node is not None and {name for _, name in calls(node)} <= HANDS_ON
