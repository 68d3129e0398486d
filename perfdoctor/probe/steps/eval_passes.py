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

    def derive(self, seconds: float) -> None:
        """A pass recorded gradients for a purpose, as it turns out."""
        self._subtract("grad_calls", 1, "grad_seconds", seconds)
        if not self.totals["grad_calls"]:
            self.grad_line = None

    def take_back(self, calls: int, seconds: float) -> None:
        """Passes were a part of the training step, as it turns out."""
        self._subtract("calls", calls, "seconds", seconds)
        if not self.totals["calls"]:
            self.lines = []

    def _subtract(self, calls: str, count: int, spent: str, seconds: float) -> None:
        self.totals[calls] -= count
        self.totals[spent] = max(0.0, self.totals[spent] - seconds)

    def pulse(self) -> None:
        """Write the totals, if they changed."""
        if self.totals != self.written:
            self.written = dict(self.totals)
            self.session.write(EvalEvent(at=self.grad_line, lines=self.lines, **self.totals))
