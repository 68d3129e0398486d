"""Ends a script before its time, as if it had left by itself: its `finally` blocks run."""

from __future__ import annotations

import signal
import threading
from typing import Any, Optional

from .. import patch
from ..wrapping import Args, Kwargs, nothing


class EarlyExit:
    """Leaves by SystemExit, again and again where the script swallows it."""

    def __init__(self) -> None:
        self.over = False

    def begin(self) -> None:
        """End the script here and now; does not return."""
        self.over = True
        main = threading.main_thread()
        hears = callable(signal.getsignal(signal.SIGINT))
        if threading.current_thread() is not main and main.ident is not None and hears:
            signal.pthread_kill(main.ident, signal.SIGINT)  # as Ctrl-C: it wakes one that waits, too
        raise SystemExit(0)

    def before_going_on(self, args: Args = (), kwargs: Optional[Kwargs] = None) -> None:
        """A script that swallowed its end neither trains on nor saves."""
        if self.over:
            raise SystemExit(0)

    def before_update(self, optimizer: Any) -> None:
        """An optimizer is about to step."""
        self.before_going_on()

    def install(self, torch: Any) -> None:
        """Put the hooks into torch."""
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        patch.wrap(torch, "save", self.before_going_on, nothing, "save")
        register_optimizer_step_pre_hook(patch.optimizer_hook("optimizer", self.before_update))
