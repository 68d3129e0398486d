"""How many of torch's functions a step calls, by the steps that are looked at call by call."""

from __future__ import annotations

from typing import Any

from ..looks.calls import CallViewer
from ..wrapping import Args, Kwargs


class FunctionCalls(CallViewer):
    """The calls of one step without backward and update: of the last pair looked at, the larger one's."""

    def __init__(self) -> None:
        self.calls = 0
        self._first = self._counted = 0

    def begin(self) -> None:
        """The first step of a pair begins."""
        self._counted = 0

    def next(self) -> None:
        """The second one begins."""
        self._first, self._counted = self._counted, 0

    def before(self, phase: int, function: Any, args: Args, kwargs: Kwargs, gap_ns: int) -> None:
        """A call begins."""
        self._counted += 1

    def tell(self, look: int, step_s: float) -> float:
        """The pair is whole; nothing is looked for."""
        self.calls = max(self._first, self._counted)
        return 0.0
