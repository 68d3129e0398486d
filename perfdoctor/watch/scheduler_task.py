"""Where a launcher starts perfdoctor itself, once for each task of a job: `srun perfdoctor run train.py`.

Each task's perfdoctor watches its own process in a folder of its own. They share a terminal and the steps at
which windows open; the first one waits a moment for the others, and shows the page of all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.dataclass import dataclass
from perfdoctor.runs.directory import RUN, read_json
from perfdoctor.wire.names import windows_file

if TYPE_CHECKING:
    from perfdoctor.runs.hangs import HungRank

WAIT_S = 10.0  # for the others: ranks end together, and stack samplers are given half of this
POLL_S = 0.1
HOST = os.uname().nodename
PLAN = windows_file(HOST)


@dataclass(frozen=True)
class SchedulerTask:
    """One of several of a job."""

    rank: int
    world: int
    id: str | None  # of the job

    @property
    def leads(self) -> bool:
        """Whether it speaks for all."""
        return self.rank == 0


def of(environ: Mapping[str, str]) -> SchedulerTask | None:
    """The task that this process is, as its launcher told it; None where it is no part of a job."""
    if not any(name.startswith(("RANK", "OMPI_", "PMI_", "SLURM_")) for name in environ):
        return None
    from perfdoctor.wire import rank_identity  # here: nobody else waits for it

    identity = rank_identity.identity(environ)
    if "rank" not in identity or identity.get("world", 1) < 2:
        return None
    return SchedulerTask(identity["rank"], identity["world"], identity.get("id"))


def share_windows(run: Path, task: SchedulerTask) -> None:
    """Let the probes of all tasks on this host plan their windows in one file.

    A rank in a window is slower, and all others wait for it: windows open at the same step everywhere.
    """
    if task.id is None:
        return
    import hashlib

    name = f".windows-{hashlib.sha256(task.id.encode()).hexdigest()[:16]}.{HOST}.bin"
    with suppress(OSError):  # a file system without links: each decides alone
        (run / PLAN).symlink_to(os.path.join(os.pardir, name))


def part_windows(run: Path) -> None:
    """Remove the plan that was shared; who still uses it keeps it mapped."""
    if (run / PLAN).is_symlink():
        (run / PLAN).resolve().unlink(missing_ok=True)
        (run / PLAN).unlink(missing_ok=True)


def hung_ranks(run: Path) -> list[HungRank]:
    """Where the other tasks' watches of the same job saw their ranks stand still."""
    from perfdoctor.runs import hangs
    from perfdoctor.runs import job as jobs

    with suppress(PerfdoctorError, OSError):
        return [hung for path in jobs.siblings(run) for hung in hangs.read(path).values()]
    return []


def wait_for_others(run: Path, seconds: float = WAIT_S) -> None:
    """Wait until the other tasks' runs beside this one are finished, at most for so long."""
    from perfdoctor.runs import job as jobs

    others: list[Path] = []
    with suppress(PerfdoctorError, OSError):  # of this run: the report will say it
        others = jobs.siblings(run)
    end_s = time.monotonic() + seconds
    while others := [path for path in others if (read_json(path / RUN) or {}).get("outcome") == "running"]:
        if time.monotonic() >= end_s:
            return
        time.sleep(POLL_S)
