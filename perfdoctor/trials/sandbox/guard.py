"""Ends what takes turns when nobody is left to let it go on: a training that rests would rest for ever.

    python -I -S guard.py VARIABLE EXECUTION...

Waits for the end of its standard input, which comes with that of the process that started it, however that
ended. If nothing was written to it until then, all processes of these executions are killed: those whose
environment names one, and those that write to its log, EXECUTION.log, for a process may empty its
environment, or write a title over it.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TIMES, PAUSE_S = 5, 0.2  # what is started while others are killed is found the next time
# Helpers clear shared memory away once those that they work for are gone: they have so many times for it.
HELPERS, PATIENT_TIMES = (b"resource_tracker", b"torch_shm_manager"), 3


def main() -> None:
    """Wait, then kill unless told that all is over."""
    if sys.stdin.buffer.read():
        return
    variable, *paths = sys.argv[1:]
    executions = {os.fsencode(f"{variable}={path}") for path in paths}
    logs = {log for path in paths if (log := identity(f"{path}.log")) is not None}
    for number in range(TIMES):
        for pid in _members(executions, logs):
            if number < PATIENT_TIMES and clears_up(pid):
                continue
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(PAUSE_S)


def clears_up(pid: int) -> bool:
    """Whether a process is a helper that ends by itself."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as cmdline:
            words = cmdline.read()
    except OSError:
        return False
    return any(helper in words for helper in HELPERS)


def identity(path: str) -> tuple[int, int] | None:
    """What tells a file from all others, or None where there is none."""
    try:
        told = os.stat(path)
    except OSError:
        return None
    return told.st_dev, told.st_ino


def writes_to(pid: int, logs: set[tuple[int, int]]) -> bool:
    """Whether a process has one of these files for its output."""
    return any(identity(f"/proc/{pid}/fd/{number}") in logs for number in (1, 2))


def _members(executions: set[bytes], logs: set[tuple[int, int]]) -> list[int]:
    members = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as environ:
                named = executions & set(environ.read().split(b"\0"))
            if named or writes_to(int(name), logs):
                members.append(int(name))
        except OSError:
            continue  # it has ended, or is not ours
    return members


if __name__ == "__main__":
    main()
