"""Ends what an execution leaves running: it would take its share of the cores from those that follow."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

VARIABLE = "PERFDOCTOR_RUN"  # names the execution in the environment of all that it started
# Helpers that clear shared memory away end by themselves, and must not be killed before they have.
PATIENCE_S = 3.0
POLL_S = 0.05
ENDINGS = (signal.SIGTERM, signal.SIGKILL)


def end(execution: Path) -> None:
    """End all processes of an execution whose command has ended."""
    processes = of(execution, psutil.process_iter())
    for number in ENDINGS:
        until_s = time.monotonic() + PATIENCE_S
        while processes and time.monotonic() < until_s:
            time.sleep(POLL_S)
            processes = of(execution, processes)
        for process in processes:
            with suppress(psutil.Error):
                process.send_signal(number)


def of(execution: Path, processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those of the processes that belong to an execution and are alive, whoever is their parent by now."""
    members = []
    for process in processes:
        with suppress(psutil.Error):
            if process.environ().get(VARIABLE) == str(execution):
                members.append(process)
    return members
