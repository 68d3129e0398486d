"""Finds the lines that lead into a phase of training, by function, from stacks of the training thread."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

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
    seen: dict[CodePlace, Counter[int]] = defaultdict(Counter)
    passed: Counter[tuple[CodePlace, int]] = Counter()
    trained = 0
    for frames, count in main:
        for place_and_line in {((frame.file, frame.name), frame.line) for frame in frames}:
            passed[place_and_line] += count
        steps = [index for index in wrapped(frames) if frames[index].phase in OF_STEPS]
        trained += count if steps else 0
        for frame in frames[: steps[-1]] if steps else ():
            if frame.owner is not Owner.PROBE:
                seen[frame.file, frame.name][frame.line] += count
    lines = {
        place: {
            line
            for line, count in counts.items()
            if count >= TORN * counts.total()
            and (count >= TORN_OF_LINE * passed[place, line] or count > MOSTLY * trained)
        }
        for place, counts in seen.items()
    }
    return defaultdict(set, lines)


def validating_lines(main: Sequence[FrameStack]) -> dict[CodePlace, set[int]]:
    """The lines that lead to validation alone, of functions in which others lead to updates."""
    seen: dict[tuple[CodePlace, int], set[Phase | None]] = defaultdict(set)
    for frames, _ in main:
        steps = [index for index in wrapped(frames) if frames[index].phase in OF_STEPS]
        for frame in frames[: steps[-1]] if steps else ():
            seen[(frame.file, frame.name), frame.line].add(frames[steps[-1]].phase)
    updating = {place for (place, _), phases in seen.items() if phases & UPDATING}
    lines: dict[CodePlace, set[int]] = defaultdict(set)
    for (place, line), phases in seen.items():
        if phases == {Phase.VALIDATION} and place in updating:
            lines[place].add(line)
    return lines
