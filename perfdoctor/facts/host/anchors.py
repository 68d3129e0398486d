"""Finds the lines that lead into a phase of training, by function, from stacks of the training thread."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence, Set

from perfdoctor.facts.user_source.frames import Frame, Owner, wrapped
from perfdoctor.model.measured import Phase

TORN = 0.06  # of a function's samples: a line below it may owe them to a stack read while it changed
TORN_OF_LINE = 0.03  # of a line's own samples: fewer in training are torn, though the function has few others
MOSTLY = 0.5  # of all samples in training: a line with more of them leads to it, however long it does else
OF_STEPS = {Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.VALIDATION}
UPDATING = {Phase.BACKWARD, Phase.OPTIMIZER}
FrameStack = tuple[tuple[Frame, ...], int]
CodePlace = tuple[str, str]  # file, function


def training_lines(main: Sequence[FrameStack]) -> dict[CodePlace, set[int]]:
    """The lines that training passes through, by function; samples torn between two lines are outvoted."""
    lines = _leading(main, OF_STEPS)
    for place, updating in updating_lines(main).items():  # a long test leaves updates a small part
        lines[place] |= updating
    return lines


def updating_lines(main: Sequence[FrameStack]) -> dict[CodePlace, set[int]]:
    """The lines that lead to backward passes and updates, by function."""
    return _leading(main, UPDATING)


def _leading(main: Sequence[FrameStack], phases: Set[Phase]) -> dict[CodePlace, set[int]]:
    """The lines that lead to any of these phases."""
    seen: dict[CodePlace, Counter[int]] = defaultdict(Counter)
    passed: Counter[tuple[CodePlace, int]] = Counter()
    led = 0
    for frames, count in main:
        for place_and_line in {((frame.file, frame.name), frame.line) for frame in frames}:
            passed[place_and_line] += count
        steps = [index for index in wrapped(frames) if frames[index].phase in OF_STEPS]
        leads = bool(steps) and frames[steps[-1]].phase in phases
        led += count if leads else 0
        for frame in frames[: steps[-1]] if leads else ():
            if frame.owner is not Owner.PROBE:
                seen[frame.file, frame.name][frame.line] += count
    lines = {
        place: {
            line
            for line, count in counts.items()
            if count >= TORN * counts.total()
            and (count >= TORN_OF_LINE * passed[place, line] or count > MOSTLY * led)
        }
        for place, counts in seen.items()
    }
    return defaultdict(set, lines)
