"""A training on a device that takes turns with others: see wire/turns.py."""

from __future__ import annotations

import os
from time import sleep  # bound now: scripts mock `time`
from typing import Any

from ...wire import names
from ...wire.turns import DeviceTurns
from ..recorder import clock
from ..session import Session
from ..steps.steps import StepTracker
from .borders import at_each_update, wait_for_device

POLL_S = 0.0005


def install(session: Session, hooks: StepTracker, torch: Any) -> None:
    """Wait for the device where the trial says, if it gives turns."""
    path = os.path.join(session.run_dir, names.TURNS)
    if not os.path.exists(path):
        return
    turns = DeviceTurns(path)

    def updated(number: int) -> None:
        if session.tag != f"rank{session.rank}":
            return  # another process of the script trains beside the one that has turns
        if number == turns.begin:
            wait_for_device(torch)
            turns.begun_ns = clock()
        elif number == turns.end:
            wait_for_device(torch)
            turns.ended_ns = clock()
        park = turns.park
        if not 0 < park <= number:
            turns.updates = number
            return
        wait_for_device(torch)
        turns.parked_ns = clock()
        turns.updates = number  # last: it says that all is there
        while turns.park == park:
            sleep(POLL_S)

    at_each_update("turns", session, hooks, updated)
