"""Adds up how often calls had the arguments of earlier ones: ComparedCalls, by line and function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from perfdoctor.facts.decode import as_count, location
from perfdoctor.facts.user_source.frames import Frame
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.wire.events.item_work import FAR

SEEN = 6  # that were compared: fewer may be alike by chance
AGAIN = 0.5  # of the calls, that repeated an earlier one
# Where few of the calls that were compared did, for their arguments are many: how often arguments came again
# much later tells how many there are in all, as in a recapture of marked fish. Fewer may be chance.
MET = 5
OFTEN = 10  # calls in a process for each of them: most of what is kept will have been asked for again

Place = tuple[str, int]  # file, line
Calls = tuple[Place, str]  # of a function, by its own name, from a line


@dataclass
class ComparedCalls:
    """The calls of a function from one line, in all processes that were looked at."""

    at: Location
    name: str  # of what is called, as scripts write it
    function: str  # its own name, and where it begins, with its decorators; line 0: unknown
    file: str
    line: int
    compared: int = 0
    repeated: int = 0
    differed: int = 0
    arguments: int = 0  # different ones, in one process
    met: int = 0  # came again much later
    pairs: float = 0.0  # of calls so far from each other
    per_item: float = 0.0

    def add(self, entry: Mapping[str, Any], items: int) -> None:
        """Another process's."""
        compared, calls = (as_count(entry.get(name)) or 0 for name in ("compared", "calls"))
        self.compared += compared
        self.repeated += as_count(entry.get("repeated")) or 0
        self.differed += as_count(entry.get("differed")) or 0
        self.arguments = max(self.arguments, as_count(entry.get("arguments")) or 0)
        self.met += as_count(entry.get("far")) or 0
        self.pairs += ((1 - FAR) * compared) ** 2 / 2
        self.per_item = max(self.per_item, calls / items if items else 0.0)

    def again(self, items: float) -> tuple[float, int | None]:
        """The share of the calls that repeat an earlier one while a process prepares so many items.

        0 where too few were compared, or one that had the arguments of another gave something else. Then the
        number of different arguments, where few came again among the calls that were compared: of n of them,
        m pairs in P are alike, n = P / m, as if all came as often.
        """
        if self.compared < SEEN or self.differed:
            return 0.0, None
        seen = 1.0 if self.arguments == 1 else self.repeated / self.compared
        in_all = self.pairs / self.met if self.met >= MET else None
        if seen >= AGAIN or in_all is None or self.per_item * items < OFTEN * in_all:
            return seen, None
        return 1 - in_all / (self.per_item * items), round(in_all)


def compared(looks: Iterable[tuple[int, Sequence[Mapping[str, Any]]]]) -> dict[Calls, ComparedCalls]:
    """The calls of all processes: of each, how many items were looked at, and the calls in them."""
    added: dict[Calls, ComparedCalls] = {}
    for items, entries in looks:
        for entry in entries:
            at, called = location(entry.get("at")), str(entry.get("function"))
            if at is not None:
                name = _called(str(entry.get("module")), str(entry.get("callee")))
                file, line = str(entry.get("file")), as_count(entry.get("line")) or 0
                new = ComparedCalls(at, name, called, file, line)
                added.setdefault(((at.file, at.line), called), new).add(entry, items)
    return added


def at_frame(frames: Sequence[Frame], index: int) -> Calls:
    """The calls that a stack is in, by the line of its frame `index` and what that one calls."""
    called = frames[index + 1].name if index + 1 < len(frames) else ""
    return (frames[index].file, frames[index].line), called


def _called(module: str, callee: str) -> str:
    """What is called, as scripts write it: a package shows at its top what its modules define."""
    return callee if module in {"__main__", "None", ""} else f"{module.partition('.')[0]}.{callee}"
