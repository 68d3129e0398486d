"""Borders of what a trial measures on a device: the updates after which it is waited for."""

from __future__ import annotations

from typing import Any, Callable

from .. import accelerators, patch
from ..session import Session
from ..steps.steps import StepTracker
from ..steps.updates import SCALER


def at_each_update(name: str, session: Session, hooks: StepTracker, call: Callable[[int], None]) -> None:
    """Have `call` told of each update, before it is counted: how many the first optimizer has made with it.

    Updates inside backward are left out, for their step is not over, and those inside another's (lookahead,
    sharded optimizers). A scaler's update that leaves its optimizer alone is not told. Installed before the
    hooks of the steps, it comes within the step whose work the device does.
    """
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def updated(optimizer: Any) -> None:
        recorder = session.recording()
        if recorder is None or hooks.updates.in_backward:
            return
        if sum(identity != SCALER for identity, _ in hooks.updates.open) > 1:
            return
        # The first optimizer's update is not counted yet; those of others follow it within a step.
        number = hooks.updates.numbers.get(optimizer) or len(hooks.updates.numbers) + 1
        call(recorder.first_optimizer_marks + (number == 1))

    register_optimizer_step_post_hook(patch.optimizer_hook(name, updated))


def wait_for_device(torch: Any) -> None:
    """Wait until the device in use has done what was launched, except while that goes into a graph."""
    used = accelerators.in_use(torch)
    if used is not None and not used.is_capturing:
        used.ask("synchronize")
