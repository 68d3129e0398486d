"""Typed events: what the probe writes as JSON lines and the reader gets back, each declared once.

A declaration is a class below Event with annotated fields, in a file of this folder or beside an observer. A
field's name is the key in the JSON line, less a trailing underscore. What is annotated Optional reads as None
where a line lacks it or holds another kind of value; the rest as the empty value of its kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

Class = TypeVar("Class", bound=type)

if TYPE_CHECKING:  # type checkers then know the arguments of every event's constructor
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**how: bool) -> Callable[[Class], Class]:
        """Nothing while it runs: typing_extensions may not be there."""
        return lambda declared: declared


Signed = Annotated[int, "below 0 as well"]  # a plain int in an event is a count or a time
Line = dict[str, Any]  # of the user's code: {file, line, function}


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
class Event:
    """One event. A plain class, since a dataclass of each would cost the user's process milliseconds."""

    event: ClassVar[str] = ""  # the name in the JSON line
    t_ns: int = 0  # set by whoever writes the line
    pid: int = 0

    def __init_subclass__(cls, name: str = "", **others: Any) -> None:
        super().__init_subclass__(**others)
        cls.event = name

    if not TYPE_CHECKING:

        def __init__(self, **fields):
            self.__dict__.update(fields)

    def fields(self) -> dict[str, Any]:
        """What was given to the constructor, by the keys of the JSON line."""
        return {name.rstrip("_"): value for name, value in vars(self).items()}

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"
