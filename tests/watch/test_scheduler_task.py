"""One perfdoctor a task: who is which, who speaks, and what they share."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from perfdoctor.runs import hangs
from perfdoctor.runs.hangs import HungRank
from perfdoctor.watch import scheduler_task
from perfdoctor.watch.scheduler_task import SchedulerTask
from tests.support.jobs import write_job

STEP = {"SLURM_JOB_ID": "8", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "4"}


@pytest.mark.parametrize(
    ("environ", "task"),
    [
        ({}, None),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        (STEP | {"SLURM_PROCID": "3"}, SchedulerTask(3, 4, "slurm 8.0")),
        ({"SLURM_JOB_ID": "8", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, None),  # the batch script itself
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, SchedulerTask(1, 2, None)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, SchedulerTask(1, 2, None)),
        (
            {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "9"},
            SchedulerTask(1, 2, "a:9"),
        ),
    ],
)
def test_a_task_is_what_its_launcher_says(environ: dict[str, str], task: SchedulerTask | None) -> None:
    assert scheduler_task.of(environ) == task


def test_only_the_first_task_speaks_for_all() -> None:
    assert [SchedulerTask(rank, 2, None).leads for rank in (0, 1)] == [True, False]


def test_tasks_of_a_job_plan_their_windows_in_one_file(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("task0", "task1", "other")]
    for folder, job in zip(folders, ("x", "x", "y"), strict=True):
        folder.mkdir()
        scheduler_task.share_windows(folder, SchedulerTask(0, 2, job))
        (folder / scheduler_task.PLAN).touch()  # as the probe makes it
    targets = [(folder / scheduler_task.PLAN).resolve() for folder in folders]
    assert targets[0] == targets[1] != targets[2]
    assert all(target.is_file() for target in targets)
    for folder in folders:
        scheduler_task.part_windows(folder)
        scheduler_task.part_windows(folder)
    assert [entry for entry in tmp_path.rglob("*") if not entry.is_dir()] == []


def test_a_plan_of_its_own_stays_where_it_is(tmp_path: Path) -> None:
    scheduler_task.share_windows(tmp_path, SchedulerTask(0, 2, None))
    (tmp_path / scheduler_task.PLAN).write_bytes(b"plan")
    scheduler_task.part_windows(tmp_path)
    assert (tmp_path / scheduler_task.PLAN).read_bytes() == b"plan"


def set_outcome(folder: Path, outcome: str) -> None:
    run: dict[str, Any] = json.loads((folder / "run.json").read_text())
    (folder / "draft").write_text(json.dumps(run | {"outcome": outcome}))
    os.replace(folder / "draft", folder / "run.json")


def test_the_first_task_waits_until_the_others_are_through(tmp_path: Path) -> None:
    first, second = write_job(tmp_path, ranks=2, steps=5, per_task=True).folders
    set_outcome(second, "running")
    ends = threading.Timer(0.3, set_outcome, (second, "ok"))
    ends.start()
    begin_s = time.monotonic()
    scheduler_task.wait_for_others(first, 30.0)
    ends.join()
    assert 0.3 <= time.monotonic() - begin_s < 15


def test_it_does_not_wait_for_ever_nor_for_nobody(tmp_path: Path) -> None:
    first, second = write_job(tmp_path, ranks=2, steps=5, per_task=True).folders
    set_outcome(second, "running")
    scheduler_task.wait_for_others(first, 0.2)  # one that hangs
    scheduler_task.wait_for_others(tmp_path / "no run at all", 30.0)
    (second / "run.json").unlink()
    scheduler_task.wait_for_others(first, 30.0)


def test_what_the_others_saw_of_their_ranks_is_found(tmp_path: Path) -> None:
    first, second = write_job(tmp_path, ranks=2, steps=5, per_task=True).folders
    still = HungRank(1, 7, 31.0)
    (second / hangs.FILE).write_text(json.dumps(hangs.entry(still)) + "\n")
    assert scheduler_task.hung_ranks(first) == [still]
    assert scheduler_task.hung_ranks(tmp_path / "no run at all") == []
