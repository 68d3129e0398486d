"""Finds work between the steps that training does not need, by stack samples: BetweenStepsFacts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from perfdoctor.facts.host.anchors import FrameStack
from perfdoctor.facts.host.inner_lines import Way, inner_line
from perfdoctor.facts.host.sampled_shares import share_of
from perfdoctor.facts.host.stacks import FEW, NO_STACKS, StackLines, threads
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.hook_results import HookResult, hook_result
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords


@dataclass(frozen=True)
class BetweenLine:
    """A line of the training loop, and where below it most of its time goes."""

    at: Location
    inside: Location  # the innermost line of the user's; the same one where it calls none of the user's code
    share: float  # of the training thread's wall time
    samples: int
    test: str | None = None  # of the `if`, every so many steps, below which alone its result is read
    # The innermost line that nearly all of its time lies below, if it is another one.
    inner: Location | None = None


@dataclass(frozen=True)
class BetweenStepsFacts:
    """Lines of the loop, or of its hooks, on which no update depends and that neither log nor save.

    The costliest comes first.
    """

    lines: tuple[BetweenLine, ...]


@fact
def between_steps_facts(rank: RankRecords, step: StepFacts, sources: Sources) -> BetweenStepsFacts | Missing:
    """What stack samples saw of such lines."""
    if not rank.stacks:
        return NO_STACKS
    main = [(frames, count) for label, frames, count in threads(rank) if label == "main"]
    if sum(count for _, count in main) < FEW:
        return Missing("too few stack samples of the training thread were taken")
    lines = StackLines(main, rank, sources, step)
    reported = _Reported(lines, {frame.file for frames, _ in main for frame in frames if _is_users(frame)})
    other = total = 0
    counted: dict[Frame, Counter[Frame]] = defaultdict(Counter)
    ways: dict[Frame, list[Way]] = defaultdict(list)
    for frames, count in main:
        phase, (user, _, kind) = lines.cost(frames)
        total += count if phase is not None else 0
        other += count if phase is Phase.OTHER else 0
        apart = lines.apart(frames) if phase is Phase.OTHER and kind is None else ()
        line = reported.first(apart)
        if line is not None:
            counted[line][user] += count
            ways[line].append((apart[apart.index(line) :], count))
    share = share_of(step, Phase.OTHER, other, total)
    return BetweenStepsFacts(
        tuple(
            BetweenLine(
                _location(line, sources),
                _location(below.most_common(1)[0][0], sources),
                share * below.total() / other,
                below.total(),
                reported.test(line),
                _inner(line, ways[line], main, sources),
            )
            for line, below in sorted(counted.items(), key=lambda entry: -entry[1].total())
        )
    )


def _inner(line: Frame, ways: Sequence[Way], main: Sequence[FrameStack], sources: Sources) -> Location | None:
    inner = inner_line(ways, sources, (frames for frames, _ in main if line not in frames))
    return _location(inner, sources) if inner is not None else None


class _Reported:
    """Which lines beside the training do nothing but report, each judged once."""

    def __init__(self, lines: StackLines, files: set[str]) -> None:
        self._lines, self._files = lines, sorted(files)
        self._of_loop: dict[Frame, bool] = {}
        self._of_hook: dict[Frame, HookResult | None] = {}

    def first(self, apart: Sequence[Frame]) -> Frame | None:
        """The first of the lines from the loop inwards on which no update depends."""
        if apart and self._by_loop(apart[0]):
            return apart[0]
        return next((frame for frame in apart if self._by_hook(frame) is not None), None)

    def test(self, line: Frame) -> str | None:
        """Of a line of a hook: see BetweenLine."""
        found = self._of_hook.get(line)
        return found.test if found is not None else None

    def _by_loop(self, frame: Frame) -> bool:
        if frame not in self._of_loop:
            self._of_loop[frame] = self._lines.only_reported(_location(frame, self._lines.sources))
        return self._of_loop[frame]

    def _by_hook(self, frame: Frame) -> HookResult | None:
        if self._lines.anchors.get((frame.file, frame.name)):
            return None  # it is no hook: training passes through it
        if frame not in self._of_hook:
            at = _location(frame, self._lines.sources)
            self._of_hook[frame] = hook_result(self._lines.sources, at, self._files)
        return self._of_hook[frame]


def _is_users(frame: Frame) -> bool:
    return frame.owner is Owner.USER


def _location(frame: Frame, sources: Sources) -> Location:
    return sources.at(frame.file, frame.line, frame.function)
