"""How much training and busy workers slow each other down on this machine; a program of its own.

    python contend.py '{"threads": 2, "workers": [1, 2], "seconds": 0.3}'

prints one JSON object: {"threads": 2, "compute": {"1": 1.6, ...}, "worker": {"1": 1.4, ...}}, the factors by
which a training step takes longer beside so many workers that never pause, and a worker beside the step and
the other workers. Workers are processes that compute in Python, one core each, as most dataset code does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

READY, GO = b"ready\n", b"go\n"
LOOPS = 2_000  # additions between two looks at the clock: some 50 us
WIDTH, BATCH = 512, 64  # of the layers that are trained: operations of a tenth of a millisecond to one
WINDOWS = 7  # the median of so many is taken


def spin(seconds: float) -> None:
    """Be a worker: say so, wait for the word, count for that long, and print additions per second."""
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    sys.stdin.buffer.readline()
    begin, loops = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for _ in range(LOOPS):
            pass
        loops += 1
    sys.stdout.write(f"{loops / (time.perf_counter() - begin)}\n")


def training() -> Callable[[], None]:
    """A step of training three layers."""
    import torch

    model = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, WIDTH),
        torch.nn.ReLU(),
        torch.nn.Linear(WIDTH, WIDTH),
        torch.nn.ReLU(),
        torch.nn.Linear(WIDTH, 1),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    batch = torch.randn(BATCH, WIDTH)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def rate(step: Callable[[], None], seconds: float) -> float:
    """Steps per second."""
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        step()
        steps += 1
    return steps / (time.perf_counter() - begin)


def crowd(count: int, seconds: float) -> list[Any]:
    """So many workers, waiting for the word."""
    command = [sys.executable, "-S", __file__, "spin", str(seconds)]
    workers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)]
    for worker in workers:
        worker.stdout.readline()  # type: ignore[union-attr]
    return workers


def started(workers: list[Any]) -> None:
    """Give the word."""
    for worker in workers:
        worker.stdin.write(GO)
        worker.stdin.flush()


def finished(workers: list[Any]) -> float:
    """Additions per second of one worker, in the mean, when all have ended."""
    return sum(float(worker.communicate()[0]) for worker in workers) / len(workers)


def measure(threads: int, counts: list[int], seconds: float) -> dict[str, Any]:
    """The factors for each number of workers; of training, the median over some windows of `seconds`.

    Teams of threads that wait for each other by spinning are held up very unevenly beside a busy worker, from
    one half second to the next.
    """
    import torch

    torch.set_num_threads(threads)
    step = training()
    rate(step, seconds)  # the first steps start threads and find kernels
    alone = rate(step, seconds)
    workers = crowd(1, seconds)
    started(workers)
    worker_alone = finished(workers)
    compute, worker = {}, {}
    for count in counts:
        workers = crowd(count, seconds * (WINDOWS + 1))
        started(workers)
        factors = sorted(alone / rate(step, seconds) for _ in range(WINDOWS))
        compute[str(count)] = factors[WINDOWS // 2]
        worker[str(count)] = worker_alone / finished(workers)
    return {"threads": threads, "compute": compute, "worker": worker}


def main(words: list[str]) -> None:
    """Run as a program."""
    if words[0] == "spin":
        spin(float(words[1]))
    else:
        request = json.loads(words[0])
        sys.stdout.write(json.dumps(measure(request["threads"], request["workers"], request["seconds"])))


if __name__ == "__main__":
    main(sys.argv[1:])
