"""Events of training loops: calls between the phases that have the arguments of earlier ones."""

from __future__ import annotations

from typing import Any

from . import Event


class LoopCallsEvent(Event, name="loop_calls"):
    """The calls of functions between an update and the next forward, in the steps that were looked at.

    Totals of a process. `steps` is how many; `calls` are as in ItemWorkEvent.
    """

    steps: int
    calls: list[dict[str, Any]]
