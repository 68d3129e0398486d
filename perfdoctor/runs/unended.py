"""Whether a run that nobody ended goes on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from perfdoctor.runs.directory import ANY_RANK, CLOCKS_S, HOST_SAMPLES, RUN, Json, read_json
from perfdoctor.runs.json_text import whole
from perfdoctor.wire import names

SILENT_S = 180.0  # three times the longest pause between two samples of the host


def settled(path: Path, run: Json) -> Json:
    """The run as `run.json` tells of it; its outcome is `lost` where it is said to run and does not.

    On its own host that is known by its processes, and everywhere by its files, which are written as long as
    somebody watches; a command may outlast its watch.
    """
    if run.get("outcome") != "running":
        return run
    watcher_pid = whole(read_json(path / names.CONFIG), "watcher_pid")
    is_lost = is_gone(run, watcher_pid) or (_is_silent(path) and not lives(run))
    return {**run, "outcome": "lost"} if is_lost else run


def is_gone(run: Json, watcher_pid: int | None) -> bool:
    """Whether its command and who watched it are gone; not known on another host."""
    if not _is_of_here(run):
        return False
    pids = [pid for pid in (whole(run, "pid"), watcher_pid) if pid]
    return bool(pids) and not any(map(_exists, pids))


def _is_of_here(run: Json) -> bool:
    host = run.get("host")
    return isinstance(host, dict) and host.get("name") == platform.node()


def lives(run: Json) -> bool:
    """Whether its command runs here: the process of that number began when it did."""
    import psutil  # here: only a run to which nothing is added any more needs it

    pid, began_s = whole(run, "pid"), run.get("started_epoch_s")
    if not _is_of_here(run) or not pid or not isinstance(began_s, (int, float)):
        return False
    with suppress(psutil.Error, OverflowError):
        process = psutil.Process(pid)
        is_same = abs(process.create_time() - began_s) < CLOCKS_S
        return is_same and process.status() != psutil.STATUS_ZOMBIE
    return False


def _exists(pid: int) -> bool:
    """Whether there is a process of that number; signal 0 only asks."""
    try:
        os.kill(pid, 0)
    except PermissionError:  # another user's
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _is_silent(path: Path) -> bool:
    return time.time() - max(_written(path), default=0.0) > SILENT_S


def _written(path: Path) -> Iterator[float]:
    for file in (path / RUN, path / HOST_SAMPLES, *path.glob(names.rows_file("steps", ANY_RANK))):
        with suppress(OSError):
            yield file.stat().st_mtime
