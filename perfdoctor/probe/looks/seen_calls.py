"""The calls of one kind in a looked-at step, told line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Dict, Iterable, List, Optional, Tuple, Type, TypeVar

from ...wire.events.seen_calls import CallsLineEvent, CallsLookEvent
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

    A subclass sets `step`, which takes in calls by its own `before` and `after`, names its events, and
    says what they hold beside what all such events do.
    """

    look_event: ClassVar[Type[CallsLookEvent]]
    line_event: ClassVar[Type[CallsLineEvent]]

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
        seconds, backward_s = seconds_of(found), backward_seconds_of(found)
        self.watch.write(
            self.look_event(
                look=look,
                step_s=step_s,
                calls=len(found),
                seconds=seconds,
                backward_s=backward_s,
                lines=number_of_lines(found),
                **self.of_step(found),
            )
        )
        for calls in costliest_lines(found):
            self.watch.write(
                self.line_event(
                    look=look,
                    calls=len(calls),
                    seconds=seconds_of(calls),
                    backward_s=backward_seconds_of(calls),
                    names=costliest_names(calls),
                    at=calls[0].line,
                    **self.of_line(calls),
                )
            )
        return (seconds + backward_s) / step_s if step_s > 0 else 1.0

    def of_step(self, found: List[Any]) -> Dict[str, Any]:
        """What the event that tells of all of them holds beside that."""
        return {}

    def of_line(self, calls: List[Any]) -> Dict[str, Any]:
        """What the event that tells of these, of one line, holds beside that."""
        return {}

    def end(self) -> None:
        """Forget the pair."""
        self.step = None


def name_of(function: Any) -> str:
    """What tells a function of torch's from the others; of a property it is the property's name."""
    owner: Any = getattr(function, "__self__", None)
    name = str(getattr(function, "__name__", function))
    return f"{owner.__name__}.{name}" if name == "__get__" and hasattr(owner, "__name__") else name


def costliest_lines(calls: Iterable[Call]) -> List[List[Call]]:
    """The calls of each line, the costliest first."""
    lines: Dict[str, List[Call]] = {}
    for call in calls:
        lines.setdefault(str(call.line), []).append(call)
    return sorted(lines.values(), key=seconds_of, reverse=True)[:LINES_MAX]


def costliest_names(calls: Iterable[SeenCall]) -> List[str]:
    """The functions that these calls were of, the costliest first."""
    names: Dict[str, int] = {}
    for call in calls:
        names[call.name] = names.get(call.name, 0) + call.ns
    return sorted(names, key=lambda name: -names[name])[:NAMES_MAX]


def number_of_lines(calls: Iterable[SeenCall]) -> int:
    """How many lines made these."""
    return len({str(call.line) for call in calls})


def seconds_of(calls: Iterable[SeenCall]) -> float:
    """What these took."""
    return sum(call.ns for call in calls) / 1e9


def backward_seconds_of(calls: Iterable[SeenCall]) -> float:
    """What their parts of backward took."""
    return sum(call.backward_ns for call in calls) / 1e9
