"""The calls of one kind in a looked-at step, told line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Tuple, TypeVar

from ...wire.events import Event
from ...wire.step_rows import DATA_WAIT
from ..wrapping import Args, Kwargs
from .calls import CallViewer

if TYPE_CHECKING:
    from ..observer import Watch

LINES_MAX = 10  # written down, of each look
NAMES_MAX = 3  # of functions, for each line


class SeenCall:
    """One call of a looked-at step."""

    __slots__ = ("backward_ns", "line", "name", "ns")

    def __init__(self, name: str, ns: int) -> None:
        self.name = name
        self.ns = ns
        self.backward_ns = 0  # what its part of backward takes, where that is known
        self.line: Optional[Dict[str, Any]] = None  # the user's that made it


Call = TypeVar("Call", bound=SeenCall)


class CallsByLine(CallViewer):
    """The calls of one kind in the second step of each pair; those that collect a batch are none of them.

    A subclass sets `step`, which takes in calls by its own `before` and `after`, and makes the events.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.step: Any = None  # under way

    def before(self, phase: int, function: Any, args: Args, kwargs: Kwargs, gap_ns: int) -> Any:
        """What goes in."""
        if self.step is None or phase == DATA_WAIT:
            return None
        call = self.step.before(function, args, kwargs)
        return None if call is None else (self.step, call)

    def after(self, seen: Tuple[Any, Any], function: Any, result: Any, ns: int) -> None:
        """What came out."""
        step, call = seen
        step.after(call, result, ns)

    def tell(self, look: int, step_s: float) -> float:
        """Write down the calls of this step, and their costliest lines."""
        found = self.step.found
        self.watch.write(self.of_step(look, step_s, found))
        for calls, seconds, names in costliest_lines(found):
            self.watch.write(self.of_line(look, calls, seconds, names))
        return (seconds_of(found) + backward_seconds_of(found)) / step_s if step_s > 0 else 1.0

    def of_step(self, look: int, step_s: float, found: List[Any]) -> Event:
        """The event that tells of all of them."""
        raise NotImplementedError

    def of_line(self, look: int, calls: List[Any], seconds: float, names: List[str]) -> Event:
        """The event that tells of those of one line, `seconds` in all, by functions of these names."""
        raise NotImplementedError

    def end(self) -> None:
        """Forget the pair."""
        self.step = None


def name_of(function: Any) -> str:
    """What tells a function of torch's from the others; of a property it is the property's name."""
    owner: Any = getattr(function, "__self__", None)
    name = str(getattr(function, "__name__", function))
    return f"{owner.__name__}.{name}" if name == "__get__" and hasattr(owner, "__name__") else name


def costliest_lines(calls: Iterable[Call]) -> List[Tuple[List[Call], float, List[str]]]:
    """(calls of a line, their seconds, names of their functions), the costliest first."""
    lines: Dict[str, List[Call]] = {}
    for call in calls:
        lines.setdefault(str(call.line), []).append(call)
    found = []
    for same in lines.values():
        names: Dict[str, int] = {}
        for call in same:
            names[call.name] = names.get(call.name, 0) + call.ns
        costliest = sorted(names, key=lambda name: -names[name])
        found.append((same, seconds_of(same), costliest[:NAMES_MAX]))
    return sorted(found, key=lambda line: -line[1])[:LINES_MAX]


def number_of_lines(calls: Iterable[SeenCall]) -> int:
    """How many lines made these."""
    return len({str(call.line) for call in calls})


def seconds_of(calls: Iterable[SeenCall]) -> float:
    """What these took."""
    return sum(call.ns for call in calls) / 1e9


def backward_seconds_of(calls: Iterable[SeenCall]) -> float:
    """What their parts of backward took."""
    return sum(call.backward_ns for call in calls) / 1e9
