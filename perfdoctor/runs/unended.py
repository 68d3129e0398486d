"""Whether a run that nobody ended goes on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from perfdoctor.runs.directory import Json, read_json
from perfdoctor.wire import names

SILENT_S = 180.0  # three times the longest pause between two samples of the host


def settled(path: Path, run: Json) -> Json:
    """The run as `run.json` tells of it; its outcome is `lost` where it is said to run and does not.

    On its own host that is known by its processes, and everywhere by its files, which are written as long as
    somebody watches.
    """
    if run.get("outcome") != "running" or not (_is_gone(path, run) or _is_silent(path)):
        return run
    return {**run, "outcome": "lost"}


def _is_gone(path: Path, run: Json) -> bool:
    """Whether its command and who watched it are gone; not known on another host."""
    host = run.get("host")
    if not isinstance(host, dict) or host.get("name") != platform.node():
        return False
    told = (run.get("pid"), (read_json(path / names.CONFIG) or {}).get("watcher_pid"))
    pids = [pid for pid in told if isinstance(pid, int) and pid > 0]
    return bool(pids) and not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def _is_silent(path: Path) -> bool:
    return time.time() - max(_written(path), default=0.0) > SILENT_S


def _written(path: Path) -> Iterator[float]:
    for file in (path / "run.json", path / "host.jsonl", *path.glob("steps.rank*.bin")):
        with suppress(OSError):
            yield file.stat().st_mtime
