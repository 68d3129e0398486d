"""How fast ranks exchange: all-reduces of many sizes, timed; a program of its own.

    torchrun --nproc-per-node 2 exchanging.py FILE SECONDS

appends JSON lines to FILE: who takes part, then each size as soon as it is measured, then the end. The first
rank of each host writes, where there is the folder. Without arguments, and without a launcher, it prints what
this interpreter has to measure with: {"torch": "2.13.0", "distributed": true, "gpus": 0}.

Only the first rank looks at the clock to decide how often a size is repeated, and whether a further one fits
into the time; it broadcasts what it decided, so that all ranks make the same calls.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

clock = time.perf_counter

SIZES = tuple(4**power for power in range(1, 14))  # bytes: one number, to 64 MiB: more than DDP's buckets
GROWTH = 4  # from one size to the next
NUMBER_BYTES = 4  # of float32, which gradients mostly are
WARM_UP = 3  # calls: the first of a size opens connections and makes buffers
LEAST, MOST = 5, 1_000  # repetitions: a median of fewer is one call; more tell no more
BURST = 10  # calls timed together on a device, so that waiting for it is a tenth of what is measured
PATIENCE = timedelta(minutes=5)  # for a rank that is still starting, or gone
NAME_BYTES = 64  # of a host, as all ranks hand it over
RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
WORLD = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
HERE = (
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "PMI_LOCAL_SIZE",
    "SLURM_NTASKS_PER_NODE",
)
BACKENDS = {"cuda": "nccl", "xpu": "xccl"}  # by which the devices of a kind exchange
LOCAL = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID")


class LinkRanks:
    """All ranks of this measurement, seen from one of them."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.distributed = torch.distributed
        local = _number(LOCAL, 0)
        kind, gpus = _devices(torch)
        on_device = max(local + 1, _number(HERE, 1)) <= gpus  # the same answer on each rank
        self.device = torch.device(kind, local) if on_device else torch.device("cpu")
        self.module = getattr(torch, kind) if on_device else None
        if self.module is not None:
            self.module.set_device(self.device)
        self.backend = BACKENDS[kind] if on_device else "gloo"
        self.distributed.init_process_group(self.backend, timeout=PATIENCE)
        self.rank = int(self.distributed.get_rank())
        self.count = int(self.distributed.get_world_size())
        self.calls = BURST if on_device else 1

    def agreed(self, number: int) -> int:
        """The number of the first rank, on each."""
        values = self.torch.tensor([number], device=self.device)
        self.distributed.broadcast(values, 0)
        return int(values.item())

    def mean(self, values: Sequence[float]) -> list[float]:
        """The values, each the mean over ranks."""
        sums = self.torch.tensor(values, dtype=self.torch.float64, device=self.device)
        self.distributed.all_reduce(sums)
        return [float(value) / self.count for value in sums.tolist()]

    def hosts(self) -> list[str]:
        """The name of each rank's host, cut where it is long."""
        name = socket.gethostname().encode()[:NAME_BYTES].ljust(NAME_BYTES, b"\0")
        mine = self.torch.tensor(list(name), dtype=self.torch.uint8, device=self.device)
        names = [self.torch.empty_like(mine) for _ in range(self.count)]
        self.distributed.all_gather(names, mine)
        return [bytes(each.tolist()).rstrip(b"\0").decode("utf-8", "replace") for each in names]

    def exchanged(self, tensor: Any) -> float:
        """Seconds that one all-reduce of `tensor` takes."""
        begin = clock()
        for _ in range(self.calls):
            self.distributed.all_reduce(tensor)
        if self.module is not None:
            self.module.synchronize(self.device)
        return (clock() - begin) / self.calls

    def facts(self) -> dict[str, Any]:
        """Who takes part."""
        return {
            "event": "begin",
            "ranks": self.count,
            "hosts": self.hosts(),
            "backend": self.backend,
            "device": self.module.get_device_name(self.device) if self.module is not None else "cpu",
            "torch": str(self.torch.__version__),
        }


def measure(ranks: LinkRanks, seconds: float, tell: Callable[[dict[str, Any]], None]) -> None:
    """Measure size after size until all are done, or the next one would take longer than `seconds` leave."""
    tell(ranks.facts())
    end, expected = clock() + seconds, 0.0
    for place, size in enumerate(SIZES):
        rest_s = end - clock()
        fits = expected * ranks.calls * (WARM_UP + LEAST) <= rest_s
        if not ranks.agreed(int(fits)):
            tell({"event": "end", "cut": size})
            return
        tensor = ranks.torch.zeros(size // NUMBER_BYTES, device=ranks.device)  # zero: sums stay so
        # Later sizes take longer: they get what the smaller ones, half of whose share is kept back, leave.
        times = sorted(ranks.mean(_repeated(ranks, tensor, rest_s / 2 / (len(SIZES) - place))))
        count = len(times)
        expected = GROWTH * times[count // 2]
        tell(
            {
                "event": "size",
                "bytes": size,
                "seconds": times[count // 2],
                "low_s": times[count // 4],
                "high_s": times[(3 * count) // 4],
                "repetitions": count * ranks.calls,
            }
        )
    tell({"event": "end", "cut": None})


def _repeated(ranks: LinkRanks, tensor: Any, seconds: float) -> list[float]:
    """What each of many exchanges takes, after some that are not counted; about so many seconds of them."""
    for _ in range(WARM_UP):
        ranks.exchanged(tensor)
    times: list[float] = []
    begin, more = clock(), LEAST
    while more:
        times += [ranks.exchanged(tensor) for _ in range(more)]
        more = ranks.agreed(min(len(times), MOST - len(times)) if clock() - begin < seconds / 2 else 0)
    return times


def look() -> dict[str, Any]:
    """What this interpreter has to measure with."""
    try:
        import torch
    except ImportError as error:
        return {"torch": None, "because": str(error)}
    return {
        "torch": str(torch.__version__),
        "distributed": bool(torch.distributed.is_available()),
        "gpus": _devices(torch)[1],
    }


def _devices(torch: Any) -> tuple[str, int]:
    """The kind of device that ranks can exchange from, and how many there are here."""
    accelerator = getattr(torch, "accelerator", None)  # since torch 2.6; this program runs alone
    device = None
    if accelerator is not None and accelerator.is_available():  # torch 2.6 raises where there is none
        device = accelerator.current_accelerator()
    kind = device.type if device is not None and device.type in BACKENDS else "cuda"
    module = getattr(torch, kind)
    return kind, int(module.device_count()) if module.is_available() else 0


def _number(names: Sequence[str], default: int) -> int:
    """What a launcher told by the first of these variables."""
    words = [os.environ[name] for name in names if os.environ.get(name, "").isdigit()]
    return int(words[0]) if words else default


def _teller(file: str, rank: int) -> Callable[[dict[str, Any]], None]:
    """Appends a line to the file where this rank is the one that writes."""
    first_here = _number(LOCAL, rank) == 0
    if not (rank == 0 or (first_here and os.path.isdir(os.path.dirname(file)))):
        return lambda line: None

    def tell(line: dict[str, Any]) -> None:
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(line) + "\n")

    return tell


def main(words: Sequence[str]) -> None:
    """Run as a program."""
    here = os.path.dirname(os.path.abspath(__file__))  # its modules are named like others'
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    if not words:
        sys.stdout.write(json.dumps(look()))
        return
    os.environ["RANK"] = str(_number(RANK, 0))
    os.environ["WORLD_SIZE"] = str(_number(WORLD, 1))
    if "MASTER_ADDR" not in os.environ:
        sys.exit("RuntimeError: MASTER_ADDR is not set: torchrun does it; else set it, and MASTER_PORT")
    import torch

    ranks = LinkRanks(torch)
    measure(ranks, float(words[1]), _teller(words[0], ranks.rank))
    ranks.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
