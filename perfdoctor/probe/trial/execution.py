"""One execution of a trial: seeded like the others, ended after so many steps, its memory written down.

Nothing that only watches waits for a device; here it is waited for twice, where measuring begins and where
it ends, in the original and in the variants alike. Between two clock readings that do not wait, a device
that is thousands of kernels behind would show how long launching takes, not computing.
"""

from __future__ import annotations

import os
import random
import resource
import sys
from typing import Any, Dict

from ...wire.events.process import TrialEndEvent
from .. import accelerators, patch
from ..on_import import on_import
from ..session import Session
from ..steps.steps import StepTracker
from . import turns
from .borders import at_each_update, wait_for_device
from .stop import EarlyExit

NUMPY_SEEDS = 2**32  # numpy's old generator takes no larger ones


def seed(options: Dict[str, Any], torch: Any) -> None:
    """Seed every generator that the script may draw from; what it seeds after importing torch, wins."""
    number = int(options["seed"])
    random.seed(number)
    torch.manual_seed(number)
    on_import("numpy.random", patch.guarded("seed", lambda module: module.seed(number % NUMPY_SEEDS)))


def install(options: Dict[str, Any], session: Session, hooks: StepTracker, torch: Any) -> None:
    """End the script with its last step, and write down how much memory it took.

    Comes before the hooks of the steps: a device is waited for in the step whose work it does.
    """
    ending = EarlyExit()
    ending.install(torch)
    _wait_at_borders(options, session, hooks, torch)
    turns.install(session, hooks, torch)

    def note() -> None:
        session.write(TrialEndEvent(ended_early=ending.over, peak=_peak(torch), broken=patch.broken()))

    def over() -> None:
        if not ending.over and os.getpid() == session.pid:
            ending.over = True
            patch.guarded("trial losses", _last_losses)(hooks, torch)
            patch.guarded("trial", note)()
            ending.begin()

    session.on_off = over
    session.on_end.append(note)


def _wait_at_borders(options: Dict[str, Any], session: Session, hooks: StepTracker, torch: Any) -> None:
    """Wait for the device before the clock is read for the last step of the warm-up, and for the last one."""
    borders = options.get("warm_up_updates"), session.options.get("max_steps")
    if None in borders:
        return

    def updated(number: int) -> None:
        if number in borders:
            wait_for_device(torch)

    at_each_update("borders", session, hooks, updated)


def _last_losses(hooks: StepTracker, torch: Any) -> None:
    """Wait for the losses that are still on their way from a device: nothing is measured any more."""
    used = accelerators.in_use(torch)
    if hooks.losses.on_device is not None and used is not None:
        used.ask("synchronize")
        hooks.losses.on_device.collect()


def _peak(torch: Any) -> Dict[str, Any]:
    """The most memory this process ever took, in bytes: of the host, and of its devices together."""
    host_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
    used = accelerators.in_use(torch)
    if used is None or not hasattr(used.module, "max_memory_allocated"):  # MPS does not tell its peak
        return {"host_bytes": host_bytes, "device_bytes": None}
    devices = range(used.ask("device_count") or 0)
    return {
        "host_bytes": host_bytes,
        "device_bytes": sum(int(used.ask("max_memory_allocated", device)) for device in devices),
    }
