"""Ranks that hang, fail, or are started without their environment: real ones, under torchrun and beside each other."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perfdoctor.runs import hangs
from tests.support.launching import environment, free_port, runs
from tests.support.paths import SCRIPTS

pytest.importorskip("torch")
pytestmark = [pytest.mark.clock, pytest.mark.process, pytest.mark.slow]

PERFDOCTOR = (sys.executable, "-m", "perfdoctor")
PLANTED = str(SCRIPTS / "planted.py")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
TIMEOUT_S = 120

# What `perfdoctor run` does, with less patience: it ends the command once a hang was seen.
HURRIED = """
import contextlib, sys, threading, time
from perfdoctor.cli import output
from perfdoctor.watch import launch
from perfdoctor.watch.options import Options
from perfdoctor.watch.samplers import hang_detector

def end(path, process):
    while not (path / "stalled.jsonl").exists():
        time.sleep(0.1)
    time.sleep(2)
    process.terminate()

@contextlib.contextmanager
def watch(path, process):
    threading.Thread(target=end, args=(path, process), daemon=True).start()
    yield

hang_detector.BOUNDS = hang_detector.HangBounds(floor_s=3.0, steps=3.0)
launch.run(sys.argv[1:], Options(out="kept", profiler=False), watch, tell=output.say)
"""
SHORT = ("--steps", "20", "--late", "1")


def call(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def report(folder: Path, run: Path) -> dict[str, Any]:
    shown = call(folder, *PERFDOCTOR, "report", "--json", str(run))
    assert shown.returncode == 0, shown.stderr
    return dict(json.loads(shown.stdout))


def test_a_hang_is_said_while_it_lasts_with_where_each_rank_is(tmp_path: Path) -> None:
    command = (*TORCHRUN, PLANTED, "--fault", "hang", "--at", "10", *SHORT)
    done = call(tmp_path, sys.executable, "-c", HURRIED, *command)
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("perfdoctor: no step")]
    assert "planted.py:" in said
    assert "rank 1 is in" in said
    assert "rank 0 waits in all_reduce" in said
    (run,) = (tmp_path / "kept").iterdir()
    found = hangs.read(run)
    assert found[1].at is not None
    assert found[1].at.function == "go_wrong"
    assert found[0].inside is not None


@pytest.mark.shows("rank-dies")
def test_the_first_failing_rank_is_named_at_the_end_of_a_quiet_run(tmp_path: Path) -> None:
    command = (*TORCHRUN, PLANTED, "--fault", "exit", "--at", "10", *SHORT)
    done = call(tmp_path, *PERFDOCTOR, "run", "-q", "--no-profiler", "--", *command)
    assert done.returncode == 1
    assert "perfdoctor: rank 1 failed" in done.stderr
    assert "with exit code 7" in done.stderr


# A rank as any launcher starts it; rank 1 may end before its time.
TRAINS = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.set_num_threads(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
    if step == 10 and "fail" in sys.argv and dist.get_rank() == 1:
        sys.exit(7)
dist.destroy_process_group()
time.sleep(0.5)  # torch 2.13 aborts a process that ends while gloo's threads still let go of the last calls
"""

SPAWNS = """
import os, sys
import torch.multiprocessing as mp

def train(rank):
    import torch, torch.distributed as dist
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[1]}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(30):
        model(torch.ones(8, 4)).sum().backward()
        dist.all_reduce(model.weight.grad)
        optimizer.step()
        import time; time.sleep(0.1)
        if rank == 1 and step == 25:
            os._exit(7)

if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
"""


@pytest.mark.shows("rank-dies")
def test_ranks_without_an_agent_are_seen_from_outside(tmp_path: Path) -> None:
    (tmp_path / "spawn.py").write_text(SPAWNS)
    done = call(tmp_path, *PERFDOCTOR, "run", "-q", "--no-profiler", "spawn.py", free_port())
    assert done.returncode == 1
    # Where its parent was quicker to ask for the status, only that the record of the rank has no end is known.
    assert re.search(r"perfdoctor: rank 1 (failed(, | first, )with exit code 7|ended)", done.stderr)


def together(folder: Path, *words: str) -> list[subprocess.CompletedProcess[str]]:
    """A perfdoctor for each of two tasks, at the same time, as `srun` starts them."""
    (folder / "train.py").write_text(TRAINS)
    port = free_port()
    line = (*PERFDOCTOR, "run", "--no-profiler", "train.py", *words)
    tasks = []
    for rank in ("0", "1"):
        told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        told |= {"SLURM_JOB_ID": "8", "SLURM_STEP_ID": "0", "SLURM_PROCID": rank, "SLURM_NTASKS": "2"}
        env = environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **told)
        tasks.append(
            subprocess.Popen(
                line, cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        )
    outputs = [task.communicate(timeout=TIMEOUT_S) for task in tasks]
    return [
        subprocess.CompletedProcess(line, task.returncode, *output)
        for task, output in zip(tasks, outputs, strict=True)
    ]


def test_of_two_tasks_the_first_shows_the_page_of_both(tmp_path: Path) -> None:
    first, second = together(tmp_path)
    assert (first.returncode, second.returncode) == (0, 0)
    assert "Kept in " in first.stderr
    assert second.stderr == ""
    folders = runs(tmp_path)
    assert [folder.name[-5:] for folder in folders] == ["task0", "task1"]
    shown = report(tmp_path, folders[0])
    assert shown["run"]["ranks"] == 2
    assert [rank["rank"] for rank in shown["ranks"]["each"]] == [0, 1]


def test_a_task_that_fails_says_so_in_one_line(tmp_path: Path) -> None:
    first, second = together(tmp_path, "fail")
    assert second.returncode == 7
    assert first.returncode != 0
    told = [line for line in second.stderr.splitlines() if line.startswith("perfdoctor: ")]
    assert len(told) == 1
    assert told[0].startswith("perfdoctor: rank 1 failed, with exit code 7; the run is kept in ")
    assert "rank 1 failed first, with exit code 7" in first.stderr.replace("\n", " ")


@pytest.mark.shows("several-nodes")
def test_ranks_that_are_left_nothing_but_pythonpath_are_watched(tmp_path: Path) -> None:
    """As `ssh host env PYTHONPATH=... python` starts them, and deepspeed for several hosts."""
    kept = f'PATH="{os.environ["PATH"]}" HOME="{tmp_path}" PYTHONPATH="$PYTHONPATH" MASTER_ADDR=127.0.0.1'
    job = f"MASTER_PORT={free_port()} WORLD_SIZE=2 LOCAL_WORLD_SIZE=2"
    lines = [f"env -i {kept} {job} RANK={rank} {sys.executable} train.py &" for rank in (0, 1)]
    (tmp_path / "train.py").write_text(TRAINS)
    (tmp_path / "start.sh").write_text("\n".join([*lines, "wait"]))
    done = call(tmp_path, *PERFDOCTOR, "run", "-q", "--no-profiler", "bash", "start.sh")
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path)
    assert {path.name for path in run.glob("steps.*")} == {"steps.rank0.bin", "steps.rank1.bin"}
    assert json.loads((run / "run.json").read_text())["notes"] == []
