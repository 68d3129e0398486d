"""run.json: what was started and how it ended, written when the command has started and when it has ended."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from perfdoctor.redaction import redact
from perfdoctor.runs import directory
from perfdoctor.watch import unwatched


class RunFile:
    """The file's content, and where it goes. `began` is (perf_counter in ns, time of day in seconds)."""

    def __init__(
        self,
        path: Path,
        argv: Sequence[str],
        pid: int,
        began: tuple[int, float],
        tweaks: Mapping[str, Mapping[str, Any]],
        keep_arguments: bool = False,
    ) -> None:
        self.file = path / directory.RUN
        self._argv = argv
        self._memory_kills = _memory_kills()
        self._fields: dict[str, Any] = {
            "schema": directory.SCHEMA,
            "id": path.name,
            "command": list(argv) if keep_arguments else redact.command(argv),
            "cwd": directory.working_folder() or None,
            "pid": pid,
            "started_epoch_s": began[1],
            "begin_ns": began[0],
            "end_ns": None,
            "exit_code": None,
            "outcome": "running",
            "versions": {"perfdoctor": _version()},
            "host": _host(pid),
            "environment": redact.environment(os.environ),
            "tweaks": tweaks,
            "notes": [],
        }

    def finish(
        self, returncode: int, end_ns: int, stopped: bool, unreached: Iterable[unwatched.UnwatchedProcess]
    ) -> None:
        """Add how the command ended; a negative `returncode` is the number of a signal."""
        outcome = "ok" if returncode == 0 else "failed" if returncode > 0 else "signalled"
        python = unwatched.python_version(self.file.parent)
        self._fields["versions"] |= {"python": python} if python else {}
        self._fields |= {
            "end_ns": end_ns,
            "exit_code": returncode,
            "outcome": "stopped" if stopped else outcome,
            "notes": unwatched.notes(self.file.parent, self._argv, unreached),
        }
        if returncode and not stopped:
            self._fields["notes"] += self._want_of_memory()

    def _want_of_memory(self) -> list[str]:
        """That the kernel killed for want of memory meanwhile: whom it chose, nobody tells for sure."""
        before, now = self._memory_kills, _memory_kills()
        if before is None or now is None or now <= before:
            return []
        killed = "a process" if now == before + 1 else f"{now - before} processes"
        return [f"the kernel killed {killed} for want of memory while the command ran"]

    def write(self) -> None:
        """Replace the file. Raises OSError where the disk is full."""
        directory.write_json(self.file, self._fields)


def _host(pid: int) -> dict[str, Any]:
    from perfdoctor.watch import samplers

    usable, limited_by = samplers.usable_cores(pid)
    return {
        "name": platform.node(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "usable_cores": usable,
        "limited_by": limited_by,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def _memory_kills() -> int | None:
    from perfdoctor.watch.samplers import cgroup  # here: the command has started, and did not wait for numpy

    return cgroup.memory_kills()


def _version() -> str | None:
    from importlib import metadata  # here: the command has started by now, and did not wait for it

    try:
        return metadata.version("perfdoctor")
    except metadata.PackageNotFoundError:  # run from a checkout
        return None
