"""Tells which lines of the user's log, and what there is to know of each: LoggingLines."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from itertools import pairwise

from perfdoctor.facts.host.logging_frames import (
    LOGGING_NAMES,
    is_of_a_log,
    is_of_a_logger,
    is_of_lightnings_log,
)
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.intervals import Intervals
from perfdoctor.facts.user_source.log_calls import is_handed_to_log, level_test
from perfdoctor.facts.user_source.parse import Sources, logs, statements_at, written_below
from perfdoctor.facts.user_source.update_dependence import only_reads
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LineCost, Location

_Place = tuple[str, int]  # file, line


@dataclass
class _Seen:
    """Samples of one line that logs."""

    innermost: Counter[Frame] = field(default_factory=Counter)  # lines of the user's
    handed: int = 0  # of what is computed before the logger is called
    of_lightning: bool = False  # it logs by Lightning's modules


class LoggingLines:
    """Lines that log, by the stacks below them and by the source."""

    def __init__(
        self, sources: Sources, intervals: Intervals, only_reported: Callable[[Location], bool]
    ) -> None:
        self._sources, self._intervals, self._only_reported = sources, intervals, only_reported
        self._seen: dict[_Place, _Seen] = defaultdict(_Seen)
        self._reading: dict[tuple[str, ast.stmt], bool] = {}

    def is_called(self, chain: Sequence[Frame]) -> bool:
        """Whether one of the user's functions is named for logging, or called by a name that logs.

        `chain`: lines of the user's from the loop inwards.
        """
        return any(self._calls(outer, inner) for outer, inner in pairwise(chain))

    def is_handed(self, chain: Sequence[Frame]) -> bool:
        """Whether what one of the lines calls is computed for a log alone: `log.debug(f"{table(rows)}")`."""
        return any(self._hands(outer, inner) for outer, inner in pairwise(chain))

    def line(self, chain: Sequence[Frame], beyond: Sequence[Frame]) -> Frame:
        """The line to run more rarely: the first from the loop inwards that does nothing but log.

        A line that calls hooks has others to call. `beyond`: what the last line calls of other people's code.
        """
        first, last = chain[0], chain[-1]
        if self.is_only_reported(_location(first)):
            return first
        for outer, inner in pairwise(chain):
            if self._logs(outer) or self._calls(outer, inner):
                return outer
        return last if self._logs(last) or any(map(is_of_a_log, beyond)) else first

    def note(self, line: Frame, frames: Sequence[Frame], count: int) -> None:
        """Take in a stack that this line logs in."""
        seen = self._seen[line.file, line.line]
        users = [index for index, frame in enumerate(frames) if frame.owner is Owner.USER]
        seen.innermost[frames[users[-1]]] += count
        seen.of_lightning |= any(map(is_of_lightnings_log, frames[users[-1] + 1 :]))
        index = max(index for index in users if frames[index] == line)
        seen.handed += 0 if any(map(is_of_a_logger, frames[index + 1 : index + 2])) else count

    def is_only_reported(self, at: Location) -> bool:
        """Whether the source shows that no update depends on a line, wherever it is called from."""
        node = self._sources.file(at.file).statement(at.line)
        reads = isinstance(node, ast.Expr) and self._logs(_frame(at)) and self._only_reads(at.file, node)
        return reads or self._only_reported(at)

    def of(self, cost: LineCost) -> LineCost:
        """A line that logs, how often it runs, whether an update depends on it, and what it leads to."""
        at, seen = cost.at, self._seen[cost.at.file, cost.at.line]
        interval = self._intervals.of(at)
        inner = max(seen.innermost, key=lambda frame: seen.innermost[frame], default=None)
        if interval.period is None and inner is not None and inner.name != at.function:
            interval = interval.through(self._intervals.of(_location(inner)))
        handed = 2 * seen.handed > seen.innermost.total()
        apart = inner is not None and (inner.file, inner.line) != (at.file, at.line)
        return replace(
            cost,
            only_reported=self.is_only_reported(at),
            interval=replace(interval, of_lightning=seen.of_lightning),
            inner=self._sources.at(inner.file, inner.line, inner.function) if inner and apart else None,
            asks=level_test(self._sources, at) if handed else None,
        )

    def _logs(self, frame: Frame) -> bool:
        """Whether a line logs by itself."""
        listing = self._sources.file(frame.file)
        node = listing.statement(frame.line)
        nodes = (*statements_at(listing, frame.line), *(written_below(node) if node is not None else ()))
        return any(logs(one, writers=listing.writers) for one in nodes)

    def _calls(self, outer: Frame, inner: Frame) -> bool:
        """Whether a line calls the next one's function to log: `log.write(...)`, `print_metrics(...)`."""
        if LOGGING_NAMES.search(inner.name):
            return True
        listing = self._sources.file(outer.file)
        return any(logs(node, inner.name, listing.writers) for node in statements_at(listing, outer.line))

    def _hands(self, outer: Frame, inner: Frame) -> bool:
        listing = self._sources.file(outer.file)
        return any(
            is_handed_to_log(node, inner.name, listing.writers) and self._only_reads(outer.file, node)
            for node in statements_at(listing, outer.line)
        )

    def _only_reads(self, file: str, node: ast.stmt) -> bool:
        if (file, node) not in self._reading:
            self._reading[file, node] = only_reads(self._sources, file, node)
        return self._reading[file, node]


def _location(frame: Frame) -> Location:
    return Location(frame.file, frame.line, frame.name)


def _frame(at: Location) -> Frame:
    return Frame(at.function or "", at.file, at.line, Owner.USER)
