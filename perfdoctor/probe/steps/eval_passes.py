"""Passes of modules in eval mode: how many, how long, whether they record gradients, and from where."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ...wire.events.training import EvalEvent
from ..session import Session
from ..user_frames import user_line, user_lines


class EvalPasses:
    """Running totals of one process."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.totals: Dict[str, Any] = {"calls": 0, "grad_calls": 0, "seconds": 0.0, "grad_seconds": 0.0}
        self.written = dict(self.totals)
        self.lines: List[Dict[str, Any]] = []  # that called the first pass, innermost first
        self.grad_line: Optional[Dict[str, Any]] = None  # of the first one that recorded gradients

    def count(self, seconds: float, recording: bool) -> None:
        """Add one pass, whose callers are still on the stack."""
        totals = self.totals
        if not totals["calls"]:
            self.lines = user_lines()
        totals["calls"] += 1
        totals["seconds"] += seconds
        if recording:
            totals["grad_calls"] += 1
            totals["grad_seconds"] += seconds
            if self.grad_line is None:
                self.grad_line = user_line()

    def take_back(self, seconds: float) -> None:
        """A pass that recorded gradients was none in eval mode, as it turns out."""
        totals = self.totals
        for calls, spent in (("calls", "seconds"), ("grad_calls", "grad_seconds")):
            totals[calls] -= 1
            totals[spent] = max(0.0, totals[spent] - seconds)
        if not totals["calls"]:
            self.lines = []
        if not totals["grad_calls"]:
            self.grad_line = None

    def pulse(self) -> None:
        """Write the totals, if they changed."""
        if self.totals != self.written:
            self.written = dict(self.totals)
            self.session.write(EvalEvent(at=self.grad_line, lines=self.lines, **self.totals))
