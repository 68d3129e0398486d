"""Ends what an execution leaves running: it would take its share of the cores from those that follow.

What is left of a trial that was killed together with its guard ends when the next one begins. Each process of
an execution names in its environment the perfdoctor that it belongs to, by process id, the time when that
process began, since ids are used again, and the namespace in which the id holds.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from perfdoctor.trials.sandbox import guard
from perfdoctor.watch.descendants import lives
from perfdoctor.wire.names import RUN_VARIABLE

OWNER = "PERFDOCTOR_TRIAL"  # names the perfdoctor that executes it, and it: what it starts may be a `run`
# Helpers that clear shared memory away end by themselves, and must not be killed before they have.
PATIENCE_S = 3.0
POLL_S = 0.05
ZOMBIE = "Z"  # killed, and nobody has asked how it ended
ENDINGS = (signal.SIGTERM, signal.SIGKILL)


def end(execution: Path) -> None:
    """End all processes of an execution whose command has ended."""
    processes = of(execution, psutil.process_iter())
    for number in ENDINGS:
        until_s = time.monotonic() + PATIENCE_S
        while processes and time.monotonic() < until_s:
            time.sleep(POLL_S)
            processes = list(filter(lives, processes))
        for process in processes:
            with suppress(psutil.Error):
                process.send_signal(number)
    until_s = time.monotonic() + PATIENCE_S
    # A process that was looked at before it forked has left another one, which nobody has been told of.
    while (left := of(execution, psutil.process_iter())) or any(map(lives, processes)):
        if time.monotonic() > until_s:
            break
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(POLL_S)


def of(execution: Path, processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those of the processes that belong to an execution and are alive, whoever is their parent by now."""
    log = guard.identity(f"{execution}.log")
    logs = set() if log is None else {log}
    members = []
    for process in processes:
        with suppress(psutil.Error):
            if process.environ().get(RUN_VARIABLE) == str(execution) or guard.writes_to(process.pid, logs):
                members.append(process)
    return members


def owned(execution: Path) -> dict[str, str]:
    """The variable that tells later trials whose an execution is; none where the system cannot tell."""
    began, namespace = _began(os.getpid()), _namespace()
    if began is None or namespace is None:
        return {}
    return {OWNER: f"{os.getpid()} {began} {namespace} {execution}"}


def end_abandoned() -> int:
    """End what earlier trials of this user left running whose perfdoctor is gone; returns how many."""
    logs: set[tuple[int, int]] = set()
    ended: dict[int, psutil.Process] = {}
    until_s = time.monotonic() + PATIENCE_S
    while (left := _abandoned(logs)) or any(map(lives, ended.values())):
        if time.monotonic() > until_s:
            break
        for process in left:
            if process.pid in ended or not guard.clears_up(process.pid):
                with suppress(psutil.Error):
                    process.kill()  # it may be stopped, and would hear nothing else
            ended[process.pid] = process
        time.sleep(POLL_S)
    return len(ended)


def _abandoned(logs: set[tuple[int, int]]) -> list[psutil.Process]:
    """What runs of executions whose perfdoctor is gone, and writes to `logs`, to which theirs are added."""
    namespace = _namespace()
    own = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.uids().real == os.getuid():
                own.append((process, _abandoned_execution(process, namespace)))
    logs |= {log for _, execution in own if execution and (log := guard.identity(f"{execution}.log"))}
    return [process for process, execution in own if execution or guard.writes_to(process.pid, logs)]


def _abandoned_execution(process: psutil.Process, namespace: str | None) -> str | None:
    """The execution that a process names as its own, where that is nobody's any more."""
    with suppress(psutil.Error, ValueError):
        environ = process.environ()
        pid, began, where, execution = environ.get(OWNER, "").split(" ", 3)
        if environ.get(RUN_VARIABLE) != execution or where != namespace:
            return None  # a `run` that was started in an execution, or another container's
        return execution if _began(int(pid)) != began else None
    return None


def _began(pid: int) -> str | None:
    """When a process began, in ticks since the machine did; None where it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()  # behind the name, which may hold anything
    return None if state == ZOMBIE else fields[18]


def _namespace() -> str | None:
    """The namespace in which our process id holds."""
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return None
