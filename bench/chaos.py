"""Kills a part of a watched training at moments drawn at random, and looks at what is left.

    python bench/chaos.py [--rounds 200] [--seed 1] [--only NUMBER]
    python bench/chaos.py --trials [--rounds 50] [--seed 1] [--only NUMBER]

The script, perfdoctor, its py-spy, a loader worker or a rank is killed. The script has to end as it would
have without perfdoctor, its run has to be readable, with every step but those of the last second before the
kill, and nothing may go on running. `--trials` kills a `perfdoctor try` instead, of which nothing may go on
running, resting or not. A round is told by seed and number. Ends with 1 where one promise broke.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import psutil

from perfdoctor import own_failures, reporting
from perfdoctor.errors import PerfdoctorError
from perfdoctor.runs import directory, records

SCRIPT = """
import os, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset

def tell(what):
    with open(what + os.environ.get("RANK", "0"), "a") as file:
        file.write(f"{os.getpid()} {time.monotonic_ns()}\\n")

class Slow(TensorDataset):
    def __getitem__(self, index):
        time.sleep(0.001)
        return super().__getitem__(index)

if __name__ == "__main__":
    tell("started")
    torch.set_num_threads(1)
    model = torch.nn.Linear(8, 1)
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = Slow(torch.ones(800, 8), torch.ones(800, 1))
    end = time.monotonic() + TRAINS
    while time.monotonic() < end:
        for x, y in DataLoader(data, batch_size=8, num_workers=1, worker_init_fn=lambda _: tell("worker")):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            tell("step")
            if "RANK" not in os.environ and time.monotonic() > end:
                break
    tell("done")
    if "RANK" in os.environ:
        time.sleep(0.5)
        torch.distributed.destroy_process_group()
"""
TRAINS_S = 5.0  # how long the script trains
WITHIN_S = START_S = 300.0  # for all to end, for the first step: ranks that share a busy machine
LATEST_S = 5.0  # after the first step, that something is killed
LAST_S = 1.0  # what may be lost
PLAYED = "CHAOS_FOLDER"  # in the environment of whatever a round starts
TRIAL_S = 15.0  # after its start, that a trial is killed at the latest: both sides are at work by then
TRIAL = ("try", "--zero-grad-none", "--seconds", "60", "--", "train.py")
TORCHRUN = (
    str(Path(sys.executable).with_name("torchrun")),
    "--standalone",
    "--nproc-per-node",
    "2",
    "train.py",
)


@dataclass
class Round:
    """One training, and what was killed of it."""

    folder: Path
    victim: str
    process: subprocess.Popen[bytes]

    def told(self, what: str, rank: int = 0) -> list[tuple[int, int]]:
        """(process id, time in ns) of each line that a rank told."""
        with suppress(OSError, ValueError):
            lines = (self.folder / f"{what}{rank}").read_text().splitlines()
            return [(int(pid), int(at_ns)) for pid, at_ns in map(str.split, lines)]
        return []

    def new(self, killed_ns: int) -> set[int]:
        """Loader workers that were only starting when something was killed.

        They may live on, in a bare training as well: who their parent is they ask once it has gone.
        """
        begun = [worker for rank in (0, 1) for worker in self.told("worker", rank)]
        return {pid for pid, at_ns in begun if at_ns > killed_ns - LAST_S * 1e9}

    def target(self) -> int | None:
        """The process to be killed, where there is one now."""
        if self.victim == "perfdoctor":
            return self.process.pid
        if self.victim == "py-spy":
            with suppress(psutil.Error):
                for child in psutil.Process(self.process.pid).children():
                    if child.name() == "py-spy":
                        return child.pid
            return None
        what, rank = {"script": ("started", 0), "worker": ("worker", 0), "rank": ("started", 1)}[self.victim]
        alive = [pid for pid, _ in self.told(what, rank)[-1:] if psutil.pid_exists(pid)]
        return alive[0] if alive else None


def play(number: int, seed: int) -> tuple[str, list[str]]:
    """One round: what was killed, and the promises that were broken."""
    draw = random.Random(f"{seed}.{number}")
    victim = draw.choice(["script", "perfdoctor", "py-spy", "worker", "rank"])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "train.py").write_text(SCRIPT.replace("TRAINS", str(TRAINS_S)))
        command = TORCHRUN if victim == "rank" else ("train.py",)
        with open(folder / "said", "wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "perfdoctor", "run", *command], **_started(folder, said)
            )
        playing = Round(folder, victim, process)
        if not _within(lambda: bool(playing.told("step")) or process.poll() is not None, START_S):
            process.kill()
            return victim, ["no step was made"]
        time.sleep(draw.uniform(0.0, LATEST_S))
        target = playing.target()
        killed_ns = time.monotonic_ns()
        if target is not None:
            with suppress(ProcessLookupError):
                os.kill(target, signal.SIGKILL)
        ended = _within(
            lambda: process.poll() is not None and not set(_running(folder)) - playing.new(killed_ns)
        )
        broken = [] if ended else [f"still running: {_described(folder)}"]
        _end(folder)
        if victim != "perfdoctor":
            broken += _wrong_end(playing, target is not None)
        elif not playing.told("done"):
            broken.append("the script did not train to its end")
        if b"Traceback" in (folder / "said").read_bytes() and victim in ("perfdoctor", "py-spy"):
            broken.append("a traceback was printed")
        return victim if target is not None else f"{victim}, gone by then", broken + _lost(playing, killed_ns)


def play_trial(number: int, seed: int) -> tuple[str, list[str]]:
    """One round in which a trial is killed, while it watches, measures or lets its sides take turns."""
    draw = random.Random(f"{seed}.{number}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "train.py").write_text(SCRIPT.replace("TRAINS", str(WITHIN_S)))
        process = subprocess.Popen(
            [sys.executable, "-m", "perfdoctor", *TRIAL], **_started(folder, subprocess.DEVNULL)
        )
        time.sleep(draw.uniform(0.0, TRIAL_S))
        going = len(_running(folder))
        process.kill()
        process.wait()
        ended = _within(lambda: not _running(folder))
        broken = [] if ended else [f"still running: {_described(folder)}"]
        _end(folder)
        return f"trial of {going} processes", broken


def _started(folder: Path, output: int | BinaryIO) -> dict[str, Any]:
    """How whatever a round starts is started: findable by its environment."""
    own = {own_failures.STRICT: "1", "OMP_NUM_THREADS": "1", PLAYED: str(folder)}
    return {
        "cwd": folder,
        "env": os.environ | own,
        "stdin": subprocess.DEVNULL,
        "stdout": output,
        "stderr": output,
    }


def _end(folder: Path) -> None:
    for pid in _running(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _wrong_end(playing: Round, hit: bool) -> list[str]:
    """Whether the exit status is another one than without perfdoctor."""
    status, done = playing.process.returncode, bool(playing.told("done"))
    expected: set[int] = {0}
    # Who is killed after its last step may have come to its end before, or not.
    if hit and playing.victim == "script":
        expected = {0, -signal.SIGKILL} if done else {-signal.SIGKILL}
    elif hit and playing.victim in ("worker", "rank"):
        expected = {0, 1} if done else {1}
    return [] if status in expected else [f"exit status {status}, not {sorted(expected)}"]


def _lost(playing: Round, killed_ns: int) -> list[str]:
    """What the run does not hold of the steps that were made until shortly before the kill."""
    try:
        path = directory.latest(playing.folder / ".perfdoctor" / "runs")
        report = reporting.judge(path)
        held = records.steps_made(records.read(path).ranks[0].steps)
    except PerfdoctorError as error:
        return [f"its run cannot be read: {error}"]
    whole = playing.victim in ("perfdoctor", "py-spy")  # nothing of the script was killed
    until_ns = time.monotonic_ns() if whole else killed_ns - int(LAST_S * 1e9)
    made = sum(at_ns < until_ns for _, at_ns in playing.told("step"))
    broken = [f"{made - held} of {made} steps are lost"] if held < made else []
    return broken + ([f"{len(report.failures)} failures of our own"] if report.failures else [])


def _running(folder: Path) -> list[int]:
    """Processes of the round that is played in a folder."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(PLAYED) == str(folder):
                found.append(process.pid)
    return found


def _described(folder: Path) -> str:
    """What still runs of a round: id, name and how each of them waits."""
    told = []
    for pid in _running(folder):
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            told.append(f"{pid} {process.name()} ({process.status()}): {' '.join(process.cmdline())[:200]}")
    return "; ".join(told) or "nothing any more"


def _within(happened: Callable[[], bool], seconds: float = WITHIN_S) -> bool:
    until_s = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > until_s:
            return False
        time.sleep(0.05)
    return True


def main() -> int:
    """Play, and print what was killed and what that broke."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", action="store_true", help="kill trials rather than runs")
    parser.add_argument("--rounds", type=int, help="200 runs, or 50 trials")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this round only")
    args = parser.parse_args()
    rounds = args.rounds or (50 if args.trials else 200)
    numbers = range(rounds) if args.only is None else [args.only]
    killed: Counter[str] = Counter()
    wrong = 0
    for number in numbers:
        victim, broken = (play_trial if args.trials else play)(number, args.seed)
        killed[victim] += 1
        wrong += bool(broken)
        for promise in broken:
            print(f"round {number}: {victim} killed: {promise}", flush=True)
    for victim, count in sorted(killed.items()):
        print(f"{victim}: {count}")
    print(f"{killed.total()} rounds, a promise broken in {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
