"""Builders of facts about what happens inside loaders, a line each. Times in milliseconds, memory in bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perfdoctor.facts.data.copy_lines import CopyLines
from perfdoctor.facts.data.helper_threads import HelperThreadFacts
from perfdoctor.facts.data.item_work import How, RepeatedWork
from perfdoctor.facts.data.nested_datasets import NestedDatasets
from perfdoctor.facts.data.padding import PaddingFacts
from perfdoctor.facts.data.small_calls import Library, SmallCalls
from perfdoctor.facts.data.storage import StorageFacts
from perfdoctor.facts.data.validation_loader import ValidationLoaderFacts
from perfdoctor.facts.data.worker_memory import WorkerMemory
from perfdoctor.facts.host.network import Link, NetworkFacts
from perfdoctor.facts.host.resources import DiskFacts
from perfdoctor.model.batch import BatchFacts, Stage, StageCost
from perfdoctor.model.measured import LineCost, Location, MemoryFacts, Phase
from tests.support.facts import line

GB = 10**9


def cost(
    stage: Stage, share: float, *lines: LineCost, kind: str = "", library: str | None = None
) -> StageCost:
    """One stage; with no lines given, all of it is one line's."""
    return StageCost(stage, kind, library, share, 100, lines or (line(share, 12, function="__getitem__"),))


def batch(*costs: StageCost, ms: float = 12.0, **given: Any) -> BatchFacts:
    """A batch that a worker prepares in `ms`."""
    return BatchFacts(
        **{
            "batch_s": ms / 1e3,
            "cpu_s": ms / 1e3,
            "in_workers": True,
            "samples": 200,
            "costs": costs,
            "worker_start_s": 0.3,
            **given,
        }
    )


def held_back(
    workers: int = 0, batch: float = 20.0, wait: float = 4.0, per_step: float = 0.2, **given: Any
) -> ValidationLoaderFacts:
    """A loader that validation waits for, `wait` ms a step; a batch of it costs `batch` ms."""
    return ValidationLoaderFacts(
        **{
            "num_workers": workers,
            "at": Location("train.py", 43, "main", "held_back = DataLoader(rest, batch_size=32)"),
            "iterable": False,
            "built": 1,
            "epochs": 5,
            "batches": 100,
            "batches_per_step": per_step,
            "batch_s": batch / 1e3,
            "batch_cpu_s": batch / 1e3,
            "wait_s": wait / 1e3,
            **given,
        }
    )


def memory(**given: int | None) -> MemoryFacts:
    """16 GB, of which 8 are left, and shared memory of 8 GB that is empty."""
    return MemoryFacts(
        **{
            "private_bytes": GB,
            "shared_bytes": GB,
            "peak_rss_bytes": 2 * GB,
            "total_bytes": 16 * GB,
            "shm_free_bytes": 8 * GB,
            "shm_bytes": 8 * GB,
            "available_bytes": 8 * GB,
            **given,
        }
    )


def threads(
    running: float = 3.0, blocked: float | None = 0.2, samples: int = 400, awaited: float = 0.0
) -> HelperThreadFacts:
    """Four threads beside the training thread."""
    return HelperThreadFacts(
        running, 4, samples, awaited, blocked, (line(0.7, 36, function="features"), line(0.3, 38))
    )


def copied(
    in_loop: float = 0.0, in_batch: float = 0.0, samples: int = 50, kind: str | None = "data"
) -> CopyLines:
    """A line that copies in the loop, between its phases, and one in the dataset."""
    loop = line(in_loop, 50, samples=samples, text="x = torch.tensor(rows)")
    loops = (replace(loop, kind=kind),) if in_loop else ()
    batches = (line(in_batch, 20, samples=samples),) if in_batch else ()
    return CopyLines(loops, batches, (Phase.OTHER,) * len(loops))


def storage(kind: str = "solid", filesystem: str = "ext4") -> StorageFacts:
    """Files open on /data."""
    return StorageFacts("/data", filesystem, kind, 20)


def disk(mb: float = 30.0) -> DiskFacts:
    """`mb` megabytes a second are read."""
    return DiskFacts(mb * 1e6, 0.0)


def network(
    mb: float = 0.5,
    gbit: float | None = None,
    best: float = 0.0,
    loopback: bool = False,
    opened: float | None = None,
    resent: float | None = None,
) -> NetworkFacts:
    """`mb` megabytes a second come in over a card of `gbit`; `best` of them in the best seconds of the run."""
    link = Link(mb * 1e6, max(mb, best) * 1e6, gbit * 1e9 / 8 if gbit else None, loopback)
    return NetworkFacts(0.0 if loopback else mb * 1e6, 0.0, link, opened, resent)


def growth(
    first: float = 200e6, last: float = 400e6, seconds: float = 100.0, late: float = 2e6
) -> WorkerMemory:
    """Two workers whose private memory grows."""
    return WorkerMemory(2, first, last, seconds, late)


def padding(beyond: float = 0.4, within: float = 0.2, **given: Any) -> PaddingFacts:
    """Rows of 200, padded by these shares beyond the longest of each batch and within it."""
    return PaddingFacts(
        **{
            "batches": 12,
            "width": 200.0,
            "longest": 200.0 * (1 - beyond),
            "mean": 200.0 * (1 - beyond - within),
            "beyond": beyond,
            "within": within,
            **given,
        }
    )


def repeated(
    share: float, number: int = 22, text: str = "table = json.load(file)", **given: Any
) -> RepeatedWork:
    """A line of the dataset that called `json.load` 64 times, with the same arguments and result."""
    at = Location("train.py", number, "__getitem__", text)
    known = {"name": "json.load", "how": How.CALL, "seen": 64, **given}
    return RepeatedWork(at, share, round(200 * share), **known)


def small(share: float, number: int = 22, text: str = "ids.append(table[c])", **given: Any) -> SmallCalls:
    """A loop of the dataset that calls `list.append` 1500 times for each item."""
    at = Location("train.py", number, "__getitem__", text)
    known = {"library": Library.OTHER, "callee": "list.append", "per_item": 1500.0, **given}
    return SmallCalls(at, share, round(200 * share), **known)


def nested(
    share: float = 0.8, samples: int = 100, deepest: int = 120, is_cut: bool = False
) -> NestedDatasets:
    """A pool that is wrapped again and again."""
    wraps = Location("train.py", 72, "ask", "pool = Subset(pool, rest)")
    return NestedDatasets(deepest // 2, deepest, is_cut, share, samples, (wraps,))
