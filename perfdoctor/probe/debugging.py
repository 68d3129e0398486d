"""Modes made for finding errors that are left on while training: which, how often, and who turned them on."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Optional, Tuple

from . import patch
from .foreign import Foreign
from .record import Recorder
from .session import Session
from .where import user_line

Args = Tuple[Any, ...]
Kwargs = Dict[str, Any]

BLOCKING_VARIABLE = "CUDA_LAUNCH_BLOCKING"


class DebugModes:
    """What is on at each look, and the line that turned it on."""

    def __init__(self, session: Session, torch: Any) -> None:
        self.session = session
        self.torch = torch
        self.foreign: Optional[Foreign] = None  # the script's own profilers, where they are watched
        self.looks = 0
        self.seen: Dict[str, int] = {}  # mode -> looks at which it was on
        self.lines: Dict[str, Optional[Dict[str, Any]]] = {}
        self.written = 0

    def look(self, recorder: Recorder, loss: Any) -> None:
        """Ask torch which modes are on."""
        self.looks += 1
        for mode in self._on():
            self.seen[mode] = self.seen.get(mode, 0) + 1

    def _on(self) -> Tuple[str, ...]:
        torch = self.torch
        on_cuda = torch.cuda.is_initialized()
        modes = {
            "anomaly": torch.is_anomaly_enabled(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "profiler": self.foreign is not None and bool(self.foreign.prepared),
            "sync": on_cuda and bool(torch.cuda.get_sync_debug_mode()),
            "blocking": on_cuda and os.environ.get(BLOCKING_VARIABLE, "0") not in ("", "0"),
        }
        return tuple(mode for mode, is_on in modes.items() if is_on)

    def noting(self, mode: str) -> Callable[[Any, Args, Any], None]:
        """A hook after a call that may have turned a mode on: remember its line."""

        def after(token: Any, args: Args, result: Any) -> None:
            self.lines[mode] = user_line()

        return after

    def pulse(self) -> None:
        """Write the totals of each mode that was seen."""
        if not self.seen or self.looks == self.written:
            return
        self.written = self.looks
        for mode, seen in self.seen.items():
            at = self.lines.get(mode)
            if mode == "profiler" and self.foreign is not None:
                at = self.foreign.line
            self.session.event("debug", mode=mode, looks=self.looks, seen=seen, at=at)


def install(modes: DebugModes) -> None:
    """Watch the calls that turn modes on."""
    torch = modes.torch
    for owner, name, mode in (
        (torch.autograd.set_detect_anomaly, "__init__", "anomaly"),
        (torch.autograd.detect_anomaly, "__enter__", "anomaly"),
        (torch, "use_deterministic_algorithms", "deterministic"),
        (torch, "set_deterministic_debug_mode", "deterministic"),
        (torch.cuda, "set_sync_debug_mode", "sync"),
    ):
        patch.wrap(owner, name, _always, modes.noting(mode), "debug mode")


def _always(args: Args, kwargs: Kwargs) -> bool:
    return True
