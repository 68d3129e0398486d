"""Batches arrive late because their files are on a rotating disk or a network file system.

## What it sees
The step waits for batches, most of a batch's cost is reading files with little CPU work, and the open files
are on a network file system, or on a disk that reports itself as rotational and is read at a rate such disks
reach.

## By hand
Copy the data to a local SSD before training, or to /dev/shm if it fits. Where that is not possible, pack many
small files into a few large ones that are read sequentially (tar, Parquet, LMDB), and use more workers so
that they wait in parallel.

## When not
Virtual machines often report every disk as rotational: measure with `fio` or `dd` before moving data. Data
read a second time may come from the page cache.
"""

from __future__ import annotations

from perfdoctor.facts.data.storage import StorageFacts
from perfdoctor.facts.host.resources import DiskFacts
from perfdoctor.model.batch import BatchFacts, Stage, waits
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import CpuFacts, LoaderFacts, Phase, StepFacts
from perfdoctor.tips.catalogue import tip

NOTICEABLE = 0.10  # share of step time that waits
LARGE = 0.40  # of a batch's cost is reading
ON_CPU = 0.6  # of the batch's cost; above it reading finds its bytes in memory
DISK_BYTES = (0.4e6, 300e6)  # per blocked second: a disk that seeks for each block, the fastest one in order
# Of the reading: a SATA SSD reads 500 MB/s in order against 150 to 250, and answers a hundred times sooner.
REMOVED = (0.5, 0.8, 0.95)


@tip(title="Move the data to a faster disk", bottleneck=Bottleneck.DATA, effort=Effort.LINES)
def data_on_slow_storage(
    step: StepFacts,
    loader: LoaderFacts,
    batch: BatchFacts,
    storage: StorageFacts,
    disk: DiskFacts,
    cpu: CpuFacts,
) -> Advice | None:
    """Names the line that reads, where batches arrive late and their files are on slow storage."""
    share, lines = batch.share(Stage.READING), batch.lines(Stage.READING)
    if step.share(Phase.DATA_WAIT) < NOTICEABLE or share < LARGE or not lines:
        return None
    worked_s = cpu.worked_s(loader.batch_cpu_s)
    if worked_s > ON_CPU * loader.batch_s or cpu.crowded:  # it may be cores that reading waits for
        return None
    if loader.batch_s <= 0.0 or loader.batches_per_step <= 0.0:
        return None
    blocked = min(share, 1.0 - worked_s / loader.batch_s)
    rate = disk.read_bytes_per_s or 0.0
    blocked_rate = rate * step.mean_s / (blocked * loader.batch_s * loader.batches_per_step)
    at_disk_rate = storage.kind == "rotational" and DISK_BYTES[0] <= blocked_rate <= DISK_BYTES[1]
    if storage.kind != "network" and not at_disk_rate:
        return None
    low, likely, high = (blocked * removed for removed in REMOVED)
    what = "a network file system" if storage.kind == "network" else "a disk that reports itself rotational"
    return Advice(
        because=(
            waits(step),
            f"{share:.0%} of a batch's {batch.batch_s * 1e3:.1f} ms is reading files",
            f"only {loader.batch_cpu_s * 1e3:.1f} ms of it is CPU time",
            f"the files are on {storage.mount} ({storage.filesystem}), {what}",
            f"{rate / 1e6:.2g} MB/s are read from disk",
        ),
        change=Change(batch=Estimate(low, likely, high)),
        at=tuple(line.at for line in lines[:3]),
    )
