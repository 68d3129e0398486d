"""Kills `perfdoctor try` at moments drawn at random, and counts what it leaves running.

    python bench/killed.py [--kills 50] [--seed 0] [--only NUMBER]

Trainings with loader workers, a process in a session of its own and a port, in turns, one after the other,
and in several ranks. Every fourth time the guard is killed as well: then a trial that begins afterwards has
to end what is left. Prints a line for each kill, and how many processes were left, stopped, and ports taken,
with who holds them. A kill is told by seed and number. Ends with 1 where anything was left.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from perfdoctor.trials.sandbox import leftovers
from perfdoctor.wire.names import RUN_VARIABLE

# In turns, two hold the port at once, which both allow; one after the other, only one does.
SCRIPT = """
import os, socket, subprocess, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset

held = socket.socket()
if SHARED:
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
held.bind(("127.0.0.1", NUMBER))
held.listen()
held.set_inheritable(True)
sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
subprocess.Popen(sleep, start_new_session=True, close_fds=False)
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
model = torch.nn.Linear(8, 1)
if "RANK" in os.environ:
    model = torch.nn.parallel.DistributedDataParallel(model)

class Slow(TensorDataset):
    def __getitem__(self, index):
        time.sleep(0.001)
        return super().__getitem__(index)

optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Slow(torch.ones(160, 8), torch.ones(160, 1)), batch_size=8, num_workers=1)
for epoch in range(4000):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
"""
KINDS = {  # words of `try`, whether trainings may share the port, and within how many seconds they are killed
    "turns": (("--zero-grad-none", "--", "train.py"), True, 25.0),
    "whole": (("--zero-grad-none", "--", "train.py"), False, 28.0),
    "ranks": (("--ranks", "1,2", "--", "train.py"), True, 28.0),
}
WITHIN_S = 10.0  # that all has to be gone after a kill
EVERY = 4  # kill after which the guard is killed as well


def running(folder: Path) -> list[psutil.Process]:
    """All processes of the executions of a folder's trials, and their guards."""
    own = str(folder / ".perfdoctor" / "trials")
    members = []
    for process in psutil.process_iter():
        try:
            named = process.environ().get(RUN_VARIABLE, "").startswith(own)
            if named or any(word.startswith(own) for word in process.cmdline()):
                members.append(process)
        except psutil.Error:
            continue
    return members


def is_free(port: int) -> bool:
    """Whether nobody holds a port."""
    with socket.socket() as other:
        until_s = time.monotonic() + 2.0  # a port goes a moment after what can be seen of its process
        while True:
            try:
                other.bind(("127.0.0.1", port))
            except OSError:
                if time.monotonic() > until_s:
                    return False
                time.sleep(0.02)
            else:
                return True


def holders(port: int) -> list[str]:
    """Who has a port, as far as the system tells."""
    found = []
    for connection in psutil.net_connections("inet"):
        if connection.laddr and connection.laddr.port == port:
            words = ["?"]
            if connection.pid is not None:
                with suppress(psutil.Error):
                    words = psutil.Process(connection.pid).cmdline()
            found.append(f"{connection.status} {connection.pid} {' '.join(words)}")
    return found


def free_port() -> int:
    """A port that nobody holds."""
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return int(any_port.getsockname()[1])


def started(folder: Path, words: Sequence[str]) -> subprocess.Popen[bytes]:
    """`perfdoctor try`, with what it says in a file."""
    with open(folder / "said", "wb") as said:
        return subprocess.Popen(
            (sys.executable, "-m", "perfdoctor", "try", "--seconds", "120", *words),
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=said,
        )


def kill(folder: Path, process: subprocess.Popen[bytes], with_guard: bool) -> int:
    """Kill a trial, and its guard first where that is wanted; how many processes it had."""
    members = running(folder)
    guards = [each for each in members if any("guard.py" in word for word in each.cmdline())]
    if with_guard:
        process.send_signal(signal.SIGSTOP)
        for guard in guards:
            guard.kill()
    process.kill()
    process.wait()
    return len(members)


def left(folder: Path) -> list[psutil.Process]:
    """What is still there when it should have gone."""
    until_s = time.monotonic() + WITHIN_S
    while (members := running(folder)) and time.monotonic() < until_s:
        time.sleep(0.1)
    return members


def phase(folder: Path) -> str:
    """Where the trial was, by the last folder that it made."""
    executions = [path for path in (folder / ".perfdoctor" / "trials").glob("*/*") if path.is_dir()]
    return max(executions, key=os.path.getmtime).name if executions else "start"


def play(number: int, seed: int) -> tuple[str, Counter[str]]:
    """One kill: a line on it, and what is counted over all."""
    draw = random.Random(f"{seed}.{number}")
    kind = list(KINDS)[number % len(KINDS)]
    words, shared, latest_s = KINDS[kind]
    with_guard = number % EVERY == EVERY - 1
    with tempfile.TemporaryDirectory(prefix="perfdoctor-killed-") as made:
        folder, port = Path(made), free_port()
        code = SCRIPT.replace("NUMBER", str(port)).replace("SHARED", str(shared))
        (folder / "train.py").write_text(code)
        process = started(folder, words)
        after_s = draw.uniform(0.3, latest_s)
        try:
            process.wait(after_s)
        except subprocess.TimeoutExpired:
            had, where = kill(folder, process, with_guard), phase(folder)
        else:
            had, where = 0, f"over with {process.returncode}"
            print((folder / "said").read_text().strip()[-500:])
        swept = leftovers.end_abandoned() if with_guard else 0
        rest = left(folder)
        stopped = sum(each.status() == psutil.STATUS_STOPPED for each in rest if each.is_running())
        free = is_free(port)
        held = "port free" if free else f"port {port} TAKEN: {'; '.join(holders(port))}"
        for each in rest:
            each.kill()
    counts = Counter(kills=where[:4] != "over", left=len(rest), stopped=stopped, taken=not free)
    counts.update(had=had, swept=swept)
    return (
        f"{number:3} {kind:6} {after_s:5.1f} s  in {where:28} {had:2} processes,"
        f" {swept:2} ended by the next trial, {len(rest)} left, {held}"
    ), counts


def main() -> int:
    """Kill, count, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this kill only")
    asked = parser.parse_args()
    totals: Counter[str] = Counter()
    for number in range(asked.kills) if asked.only is None else [asked.only]:
        line, counts = play(number, asked.seed)
        totals.update(counts)
        print(line, flush=True)
    print(
        f"{totals['kills']} trials killed, {totals['had']} processes alive then, {totals['swept']} ended by"
        f" the next trial; left: {totals['left']}, of them stopped: {totals['stopped']};"
        f" ports taken: {totals['taken']}"
    )
    return 1 if totals["left"] or totals["taken"] else 0


if __name__ == "__main__":
    sys.exit(main())
