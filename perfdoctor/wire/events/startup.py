"""Events of what a process does before its first step."""

from __future__ import annotations

from typing import Any

from . import Event


class StartUpEvent(Event, name="startup"):
    """Samples of the thread that imported torch, from then until the first update, or until a fork."""

    begin_ns: int
    end_ns: int
    samples: int
    delay_s: float | None  # that the thread was ready and had no core
    lines: list[dict[str, Any]]  # {file, line, function, kind, samples}, most samples first
