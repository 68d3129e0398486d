"""How long gradients are set to zero where they could be dropped."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Optional, Tuple

from ...wire.events.training import ZeroGradEvent
from .. import patch
from ..observer import Watch, observer
from ..recorder import Recorder, clock
from ..session import Session
from ..user_frames import user_line
from ..wrapping import Args, Kwargs


class ZeroFilling:
    """Running totals of one process."""

    def __init__(self, session: Session, drops: bool) -> None:
        self.session = session
        self.drops = drops  # what `zero_grad()` does by default: None since torch 2.0, zeros before
        self.totals: Dict[str, Any] = {"calls": 0, "seconds": 0.0}
        self.written = 0
        self.line: Optional[Dict[str, Any]] = None

    def wrapped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """One of torch's two functions, watched."""
        return patch.around_clearing(original, self.drops, self.before, self.after, "zeroing")

    def before(self, args: Args, kwargs: Kwargs) -> Optional[Tuple[Recorder, int]]:
        """Start the clock, in the thread that trains."""
        recorder = self.session.recording() if self.session.recorder is not None else None
        return None if recorder is None or not recorder.written else (recorder, clock())

    def after(self, token: Tuple[Recorder, int], args: Args, result: Any) -> None:
        """Add the call up."""
        seconds = (clock() - token[1]) / 1e9
        if self.line is None:
            self.line = user_line()
        self.totals["calls"] += 1
        self.totals["seconds"] += seconds

    def pulse(self) -> None:
        """Write the totals, if they grew."""
        if self.totals["calls"] != self.written:
            self.written = int(self.totals["calls"])
            self.session.write(ZeroGradEvent(at=self.line, **self.totals))


@observer
def zero_grad(watch: Watch) -> None:
    """Time the two ways that torch has to clear gradients, where they are asked for zeros."""
    torch = watch.torch
    default = inspect.signature(torch.optim.Optimizer.zero_grad).parameters["set_to_none"].default
    calls = ZeroFilling(watch.session, bool(default))
    for owner in (torch.optim.Optimizer, torch.nn.Module):
        patch.replace(owner, "zero_grad", calls.wrapped)
    watch.each_second("zeroing", calls.pulse)
