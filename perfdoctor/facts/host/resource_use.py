"""Tells what a run used of its machine, and what would have been enough: ResourceUse."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from perfdoctor.facts.decode import number
from perfdoctor.facts.given import AllRanks
from perfdoctor.facts.host.resources import HostSamples, growth
from perfdoctor.facts.registry import fact
from perfdoctor.model.measured import CpuFacts, GpuFacts, LoaderFacts, MemoryFacts, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.model.resource_use import ResourceUse, UsedResource

ROLES = ("main", "worker", "rank", "other")  # all processes of the run
HEADROOM = 1.25  # times the peak of memory: samples are a second apart, and the next run is not the same
SHORTEST_S = 0.5  # between two samples, for cores: clocks of processes tick every 10 ms
SHARED = 1.1  # of its share of the items, which a sampler fills up to whole batches, a rank takes in an epoch
SPARE_CORE = 0.1  # of a core beyond whole ones needs no core of its own


@fact
def resource_use(
    samples: HostSamples,
    step: StepFacts,
    cpu: CpuFacts | Missing,
    memory: MemoryFacts | Missing,
    gpu: GpuFacts | Missing | None,
    loader: LoaderFacts | Missing | None,
    ranks: AllRanks | None,
) -> ResourceUse | None:
    """What was used, or None where nothing of it was sampled."""
    found = [*_cores(samples, cpu), *_memory(memory), *_device_memory(gpu)]
    if not found:
        return None
    device = gpu if isinstance(gpu, GpuFacts) else None
    return ResourceUse(
        resources=tuple(found),
        device_busy=device.utilisation if device is not None else None,
        devices=len(device.names) if device is not None else 0,
        power_w=device.power_w if device is not None else None,
        epoch_s=_epoch_s(step, loader, ranks.job.world if ranks is not None else 1),
    )


def _cores(samples: HostSamples, cpu: CpuFacts | Missing) -> Iterator[UsedResource]:
    if isinstance(cpu, Missing):
        return
    seconds = [
        (number(after.get("t_ns")) - number(before.get("t_ns"))) / 1e9 for before, after in pairwise(samples)
    ]
    rates = [
        rate
        for pair, apart_s in zip(pairwise(samples), seconds, strict=True)
        if apart_s >= SHORTEST_S and (rate := growth(pair, "cpu_s", ROLES)) is not None
    ]
    if not rates:
        return
    # Processes that live between two samples are in the mean only: their parents have their time.
    peak = min(cpu.usable_cores, max(*rates, cpu.busy_cores or 0.0))
    enough = cpu.usable_cores if cpu.crowded else max(1, math.ceil(peak - SPARE_CORE))
    yield UsedResource("cores", False, cpu.busy_cores, peak, cpu.usable_cores, min(enough, cpu.usable_cores))


def _memory(memory: MemoryFacts | Missing) -> Iterator[UsedResource]:
    if isinstance(memory, Missing) or not memory.total_bytes:
        return
    peak = memory.most_bytes
    if peak:
        yield _bytes("memory", None, peak, memory.total_bytes)


def _device_memory(gpu: GpuFacts | Missing | None) -> Iterator[UsedResource]:
    """Of the device on which most was used."""
    if isinstance(gpu, GpuFacts) and gpu.memory_peak_bytes and gpu.memory_total_bytes:
        yield _bytes("device memory", gpu.memory_used_bytes, gpu.memory_peak_bytes, gpu.memory_total_bytes)


def _bytes(name: str, mean: float | None, peak: float, available: float) -> UsedResource:
    return UsedResource(name, True, mean, peak, available, min(HEADROOM * peak, available))


def _epoch_s(step: StepFacts, loader: LoaderFacts | Missing | None, world: int) -> float | None:
    """Seconds for all items of the training loader's dataset once; ranks share them, unless one took more."""
    if not isinstance(loader, LoaderFacts) or not loader.items or not step.samples_per_s:
        return None
    own = loader.items / world
    taken = loader.samples / max(1, loader.epochs)
    return (own if taken <= SHARED * own else loader.items) / step.samples_per_s
