"""Tells which lines that log read tensors, or hand them to what reads them: on a device it waits."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from perfdoctor.facts.host.anchors import FrameStack
from perfdoctor.facts.user_source.frames import Frame, Owner, wrapped
from perfdoctor.facts.user_source.handed_results import is_handed_results
from perfdoctor.facts.user_source.loop_roles import Loop
from perfdoctor.facts.user_source.loop_statements import takes_numbers
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import LineCost

# What torch passes through on the way from a tensor to its values, as text or as an array.
READING_FILES = re.compile(
    r"torch[/\\](?:(?P<tensor>_tensor)|_tensor_str|utils[/\\]tensorboard[/\\]_convert_np)\.py$"
)
READING_NAMES = re.compile(r"__(?:repr|format|array|contains)\w*__$")  # of a tensor's own


class TensorReads:
    """Lines that read tensors, by the samples of the training thread and by the source of these files."""

    def __init__(self, main: Sequence[FrameStack], sources: Sources, files: Iterable[str]) -> None:
        self._main, self._sources, self._files = main, sources, frozenset(files)

    def at(self, cost: LineCost, loop: Loop | None) -> bool:
        """Whether a line mostly reads tensors, or the loop around it hands it some that the model gave.

        What reads them in C has no frame: a library's own conversion to numbers looks like its work.
        """
        if 2 * self._samples[cost.at.file, cost.at.line] > cost.samples:
            return True
        return loop is not None and is_handed_results(loop, cost.at.line, self._counting)

    @cached_property
    def _samples(self) -> Counter[tuple[str, int]]:
        """The samples in which torch reads out a tensor, by the lines of the user's that lead there."""
        samples = Counter[tuple[str, int]]()
        for frames, count in self._main:
            if any(map(_reads, frames)) and not wrapped(frames):
                lines = {(frame.file, frame.line) for frame in frames if frame.owner is Owner.USER}
                samples.update(dict.fromkeys(lines, count))
        return samples

    @cached_property
    def _counting(self) -> frozenset[str]:
        """The names of the user's functions that take numbers out of tensors."""
        scopes = [scope for file in self._files for scope in self._sources.file(file).scopes]
        return frozenset(scope.name for scope in scopes if any(map(takes_numbers, ast.walk(scope))))


def _reads(frame: Frame) -> bool:
    found = READING_FILES.search(frame.file) if frame.owner is Owner.TORCH else None
    return found is not None and (found["tensor"] is None or READING_NAMES.match(frame.name) is not None)
