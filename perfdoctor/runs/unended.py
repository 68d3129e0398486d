"""Whether a run that nobody ended goes on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from perfdoctor.runs.directory import ANY_RANK, HOST_SAMPLES, RUN, Json, read_json
from perfdoctor.runs.json_text import whole
from perfdoctor.wire import names

SILENT_S = 180.0  # three times the longest pause between two samples of the host


def settled(path: Path, run: Json) -> Json:
    """The run as `run.json` tells of it; its outcome is `lost` where it is said to run and does not.

    On its own host that is known by its processes, and everywhere by its files, which are written as long as
    somebody watches.
    """
    if run.get("outcome") != "running":
        return run
    watcher_pid = whole(read_json(path / names.CONFIG), "watcher_pid")
    return {**run, "outcome": "lost"} if is_gone(run, watcher_pid) or _is_silent(path) else run


def is_gone(run: Json, watcher_pid: int | None) -> bool:
    """Whether its command and who watched it are gone; not known on another host."""
    host = run.get("host")
    if not isinstance(host, dict) or host.get("name") != platform.node():
        return False
    pids = [pid for pid in (whole(run, "pid"), watcher_pid) if pid]
    return bool(pids) and not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def _is_silent(path: Path) -> bool:
    return time.time() - max(_written(path), default=0.0) > SILENT_S


def _written(path: Path) -> Iterator[float]:
    for file in (path / RUN, path / HOST_SAMPLES, *path.glob(names.rows_file("steps", ANY_RANK))):
        with suppress(OSError):
            yield file.stat().st_mtime
