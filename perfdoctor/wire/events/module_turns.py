"""Events of modules that a step calls many times."""

from __future__ import annotations

from . import Event, Line


class ModuleTurnsEvent(Event, name="module_turns"):
    """Modules that a sampled step called often, all of them by way of the same lines of the user's."""

    look: int | None  # the sampled steps are numbered from 1
    turns: int  # calls of the one that was called most often
    calls: int  # of all of them
    products: int  # of numbers, of what goes in with their own weights, in all these calls
    host: bool  # the CPU computes them
    names: list[str]  # of their classes, some
    lines: list[Line]  # innermost first, of one such call
