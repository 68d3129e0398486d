"""One perfdoctor a task: who is which, who speaks, and what they share."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from perfdoctor import stalled, tasks
from perfdoctor.stalled import Stall
from perfdoctor.tasks import Task
from tests.jobs import write_job

STEP = {"SLURM_JOB_ID": "8", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "4"}


@pytest.mark.parametrize(
    ("environ", "task"),
    [
        ({}, None),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        (STEP | {"SLURM_PROCID": "3"}, Task(3, 4, "slurm 8.0")),
        ({"SLURM_JOB_ID": "8", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, None),  # the batch script itself
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, Task(1, 2, None)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, Task(1, 2, None)),
        (
            {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "9"},
            Task(1, 2, "a:9"),
        ),
    ],
)
def test_a_task_is_what_its_launcher_says(environ: dict[str, str], task: Task | None) -> None:
    assert tasks.of(environ) == task


def test_only_the_first_task_speaks_for_all() -> None:
    assert [Task(rank, 2, None).leads for rank in (0, 1)] == [True, False]


def test_tasks_of_a_job_plan_their_windows_in_one_file(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("task0", "task1", "other")]
    for folder, job in zip(folders, ("x", "x", "y"), strict=True):
        folder.mkdir()
        tasks.share_windows(folder, Task(0, 2, job))
        (folder / tasks.PLAN).touch()  # as the probe makes it
    targets = [(folder / tasks.PLAN).resolve() for folder in folders]
    assert targets[0] == targets[1] != targets[2]
    assert all(target.is_file() for target in targets)
    for folder in folders:
        tasks.part_windows(folder)
        tasks.part_windows(folder)
    assert [entry for entry in tmp_path.rglob("*") if not entry.is_dir()] == []


def test_a_plan_of_its_own_stays_where_it_is(tmp_path: Path) -> None:
    tasks.share_windows(tmp_path, Task(0, 2, None))
    (tmp_path / tasks.PLAN).write_bytes(b"plan")
    tasks.part_windows(tmp_path)
    assert (tmp_path / tasks.PLAN).read_bytes() == b"plan"


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
    tasks.wait_for_others(first, 30.0)
    ends.join()
    assert 0.3 <= time.monotonic() - begin_s < 15


def test_it_does_not_wait_for_ever_nor_for_nobody(tmp_path: Path) -> None:
    first, second = write_job(tmp_path, ranks=2, steps=5, per_task=True).folders
    set_outcome(second, "running")
    tasks.wait_for_others(first, 0.2)  # one that hangs
    tasks.wait_for_others(tmp_path / "no run at all", 30.0)
    (second / "run.json").unlink()
    tasks.wait_for_others(first, 30.0)


def test_what_the_others_saw_of_their_ranks_is_found(tmp_path: Path) -> None:
    first, second = write_job(tmp_path, ranks=2, steps=5, per_task=True).folders
    still = Stall(1, 7, 31.0)
    (second / stalled.FILE).write_text(json.dumps(stalled.entry(still)) + "\n")
    assert tasks.stalls(first) == [still]
    assert tasks.stalls(tmp_path / "no run at all") == []
