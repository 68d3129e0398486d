"""Measures cores, memory, disk and accelerators from samples: CpuFacts, MemoryFacts, DiskFacts, GpuFacts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NewType

from perfdoctor.facts.decode import Json, as_count, number, positive, process_sum, processes
from perfdoctor.facts.host.ranks_apart import RanksApart
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.steps.summary import TimedStep
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import CpuFacts, GpuFacts, LoaderFacts, MemoryFacts, RunFacts, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords, RunRecords
from perfdoctor.wire.events.script import DeviceEvent, TrainedDevicesEvent

CHILDREN = ("worker", "other")  # roles of processes that a rank may have started
CUDA = "cuda"  # torch's name for devices of NVIDIA and AMD, whose libraries are asked
SPARE = 0.05  # of a device's time and memory: a driver, or a process that does nothing there, takes less
HELD = ("private_bytes", "shared_bytes", "rss_bytes", "pss_bytes")  # pages of a process, of one sample
ENOUGH = 3  # samples inside the steps: below it, the once-a-second sampler saw mostly borders


@dataclass(frozen=True)
class DiskFacts:
    """Disk traffic of the process tree, bytes per second."""

    read_bytes_per_s: float | None
    written_bytes_per_s: float | None


HostSamples = NewType("HostSamples", Sequence[Json])  # taken between the first step and the last
OwnSamples = NewType("OwnSamples", Sequence[Json])  # the same, processes of other ranks told apart
# Samples between the same steps of the devices that the run trains on, and of the rank's own ones.
UsedDevices = NewType("UsedDevices", Mapping[int, Sequence[Json]])
OwnDevices = NewType("OwnDevices", Mapping[int, Sequence[Json]])


@fact
def host_samples(records: RunRecords, span: MeasuredSpan) -> HostSamples:
    """The samples of the host that facts are about."""
    return HostSamples(inside(records.host, span))


@fact
def own_samples(samples: HostSamples, records: RunRecords, rank: RankRecords) -> OwnSamples:
    """The same with the processes of other ranks told apart."""
    return OwnSamples(of_rank(samples, rank.rank) if len(records.ranks) > 1 else samples)


def inside(host: Sequence[Json], span: MeasuredSpan) -> list[Json]:
    """Samples taken between the first step and the last, in order."""
    return [entry for entry in host if span.holds(entry.get("t_ns"))]


def of_rank(samples: Sequence[Json], rank: int) -> list[Json]:
    """The samples with the processes of other ranks told apart from this one's: their role is "rank"."""

    def told(proc: Json) -> Json:
        other = as_count(proc.get("rank")) not in (None, rank)
        return {**proc, "role": "rank"} if other and proc.get("role") in ("main", "worker") else proc

    return [{**entry, "procs": [told(proc) for proc in processes(entry)]} for entry in samples]


def share_of(cpu: CpuFacts, ranks: int) -> CpuFacts:
    """The cores that one of so many ranks of a host can have to itself; each has the same claim to them."""
    if ranks < 2:
        return cpu
    others = cpu.other_cores / ranks if cpu.other_cores is not None else None
    whole = cpu.whole_cores / ranks if cpu.whole_cores is not None else None
    return replace(cpu, usable_cores=cpu.usable_cores / ranks, whole_cores=whole, other_cores=others)


@fact
def cpu_facts(
    records: RunRecords,
    samples: OwnSamples,
    of_all: HostSamples,
    timed: TimedStep,
    loader: LoaderFacts | Missing | None,
    apart: RanksApart,
) -> CpuFacts | Missing:
    """Cores and how busy they were. The steps' own CPU clocks are finer than samples a second apart."""
    host = records.run.get("host")
    run_host = host if isinstance(host, dict) else {}
    usable = positive(samples[-1].get("usable_cores")) if samples else None
    usable = usable or positive(run_host.get("usable_cores")) or positive(run_host.get("cores"))
    if usable is None:
        return Missing("the number of usable cores is not known")
    main = _main_cores(timed.step)
    workers = _worker_cores(timed.step, loader)
    sampled = {role: growth(samples, "cpu_s", {role}) for role in ("main", "worker", "rank", "other")}
    if len(samples) >= ENOUGH:
        main = main if main is not None else sampled["main"]
        workers = sampled["worker"] if sampled["worker"] is not None else workers
    parts = (main, workers, sampled["rank"], sampled["other"], _unseen(of_all), apart.cores)
    known = [value for value in parts if value is not None]
    busy = min(usable, sum(known)) if main is not None else None
    machine = busy_cores(samples)
    told = len(machine) >= ENOUGH and bool(known) and apart.cores is not None
    others = max(0.0, sum(machine) / len(machine) - sum(known)) if told else None
    limited_by = str(run_host.get("limited_by") or "machine")
    main_delay = growth(samples, "threads_delay_s", {"main"}) if len(samples) >= ENOUGH else None
    whole = positive(samples[-1].get("whole_cores")) if samples else None
    return CpuFacts(
        usable_cores=usable,
        busy_cores=busy,
        main_cores=main,
        worker_cores=workers,
        limited_by=limited_by,
        other_cores=others,
        worker_delay=_delay(samples),
        main_delay=main_delay,
        whole_cores=min(usable, whole) if whole else None,
    )


def busy_cores(samples: Sequence[Json]) -> list[float]:
    """Usable cores that are busy with whatever process, in each sample that tells it, and the run's part.

    Where a quota allows fewer cores than the machine has, others take of these only what its idle ones do not
    leave.
    """
    return [
        max(0.0, number(entry["machine_busy_cores"]) - _beyond(entry))
        for entry in samples
        # processes of the run that are not listed would pass for other programs
        if entry.get("machine_busy_cores") is not None and not entry.get("left_out")
    ]


def _beyond(entry: Json) -> float:
    """How many cores more than it may use at once the run can be scheduled to."""
    reachable, usable = positive(entry.get("machine_cores")), positive(entry.get("usable_cores"))
    return max(0.0, reachable - usable) if reachable and usable else 0.0


def _unseen(samples: HostSamples) -> float | None:
    """Cores that children of ranks kept busy which came and went between two samples: short epochs' workers.

    All that children took is what those took that have ended, and by how much more the living ones have: of
    all ranks alike, whose workers would else be counted again as what their own rank has waited for.
    """
    ended = growth(samples, "ended_children_cpu_s", ("main",))
    seen = growth(samples, "cpu_s", CHILDREN)
    if ended is None or len(samples) < ENOUGH:
        return None
    seconds = (number(samples[-1].get("t_ns")) - number(samples[0].get("t_ns"))) / 1e9
    if seconds <= 0:  # samples in another order
        return None
    first_s, last_s = (
        sum(number(proc.get("cpu_s")) for proc in _processes(entry, CHILDREN))
        for entry in (samples[0], samples[-1])
    )
    return max(0.0, ended + (last_s - first_s) / seconds - (seen or 0.0))


def _delay(samples: Sequence[Json]) -> float | None:
    """Seconds that loader workers were ready but had no core, for each second that they ran."""
    ran, lacked = (growth(samples, f"thread_{name}_s", {"worker"}) for name in ("cpu", "delay"))
    return lacked / ran if ran and lacked is not None and len(samples) >= ENOUGH else None


def _main_cores(step: StepFacts) -> float | None:
    if step.process_cpu_s is None or step.mean_s <= 0:
        return None
    return step.process_cpu_s / step.mean_s


def _worker_cores(step: StepFacts, loader: LoaderFacts | Missing | None) -> float | None:
    if not isinstance(loader, LoaderFacts) or step.mean_s <= 0:
        return None
    if not loader.num_workers:
        return 0.0
    return loader.batch_cpu_s * loader.batches_per_step / step.mean_s


def _processes(entry: Json, roles: Collection[str]) -> list[Json]:
    """The processes of these roles that a sample saw."""
    return [proc for proc in processes(entry) if proc.get("role") in roles]


def growth(samples: Sequence[Json], key: str, roles: Iterable[str]) -> float | None:
    """How fast a cumulative figure of these processes grows, per second; processes come and go."""
    wanted = set(roles)
    total, seconds, seen = 0.0, 0.0, False
    before: dict[int, float] = {}
    for index, entry in enumerate(samples):
        known = processes(entry)
        told = {int(number(proc.get("pid"))): proc for proc in known if proc.get(key) is not None}
        now = {pid: number(proc[key]) for pid, proc in told.items() if proc.get("role") in wanted}
        seen = seen or bool(now)
        if index:
            seconds += max(0.0, number(entry.get("t_ns")) - number(samples[index - 1].get("t_ns"))) / 1e9
            total += sum(max(0.0, value - before.get(pid, 0.0)) for pid, value in now.items())
        # Of all processes: one that only now comes to its role has not spent its whole life in it.
        before = {pid: number(proc[key]) for pid, proc in told.items()}
    return total / seconds if seen and seconds > 0 else None


@fact
def memory_facts(samples: HostSamples) -> MemoryFacts | Missing:
    """The largest sums over the process tree that any sample saw."""
    if not samples:
        return Missing("memory was not sampled while training stepped")

    def most(key: str, roles: Sequence[str] | None = None) -> int | None:
        sums = [process_sum(entry, key, roles) for entry in samples]
        known = [value for value in sums if value is not None]
        return round(max(known)) if known else None

    def least(group: str, key: str) -> int | None:
        told = ((entry.get(group) or {}).get(key) for entry in samples)
        known = [value for each in told if (value := as_count(each)) is not None]
        return min(known, default=None)

    last = samples[-1]
    left = [least("memory", key) for key in ("available_bytes", "limit_left_bytes")]
    return MemoryFacts(
        private_bytes=most("private_bytes"),
        shared_bytes=most("shared_bytes"),
        peak_rss_bytes=most("rss_bytes"),
        total_bytes=_whole((last.get("memory") or {}).get("total_bytes")),
        shm_free_bytes=least("shm", "free_bytes"),
        shm_bytes=_whole((last.get("shm") or {}).get("total_bytes")),
        available_bytes=min((value for value in left if value is not None), default=None),
        anonymous_bytes=most("anonymous_bytes", ("main", "rank")),
        held_bytes=_held_bytes(samples),
    )


def _held_bytes(samples: Sequence[Json]) -> int | None:
    """The most that the process tree held in any sample, each page once.

    Where no sample knows the proportional set of every process, no process counts more than its private
    pages, but for the one that has most shared ones.
    """
    exact, about = [], []
    for entry in samples:
        held = [[as_count(proc.get(key)) for key in HELD] for proc in processes(entry)]
        known = [each for each in held if None not in each[:3]]
        if not known:
            continue
        private, shared, rss, pss = zip(*known, strict=True)
        if len(known) == len(held) and None not in pss:
            exact.append(sum(pss))
        else:
            about.append(min(sum(private) + max(shared), sum(rss)))
    return max(exact or about, default=None)


def _whole(value: object) -> int | None:
    amount = positive(value)
    return round(amount) if amount is not None else None


@fact
def disk_facts(samples: HostSamples) -> DiskFacts | Missing:
    """Disk traffic of the process tree."""
    roles = ("main", "worker", "other")
    read, written = growth(samples, "read_bytes", roles), growth(samples, "written_bytes", roles)
    if read is None and written is None:
        why = "disk traffic could not be read" if samples else "no sample was taken while training stepped"
        return Missing(why)
    return DiskFacts(read, written)


@fact
def used_devices(records: RunRecords, run: RunFacts, span: MeasuredSpan) -> UsedDevices:
    """The devices that trained; all busy ones where that is not known, and none where the CPU trained."""
    if not run.on_device:
        return UsedDevices({})
    sampled = {index: inside(rows, span) for index, rows in records.gpus.items()}
    busy = {index for index, rows in sampled.items() if rows and _mean(rows, "utilisation", default=1.0)}
    known = _training(sampled, records.ranks.values())
    training = known or busy or {index for index, rows in sampled.items() if rows}
    return UsedDevices({index: rows for index, rows in sampled.items() if index in training})


@fact
def own_devices(used: UsedDevices, rank: RankRecords) -> OwnDevices:
    """Those that the rank itself trains on; all that are used where that is not known."""
    own = _training(used, [rank]) or used.keys()
    return OwnDevices({index: rows for index, rows in used.items() if index in own})


@fact
def gpu_facts(
    records: RunRecords,
    run: RunFacts,
    span: MeasuredSpan,
    devices: UsedDevices,
    trained_on: list[DeviceEvent],
) -> GpuFacts | Missing | None:
    """What NVML or amdsmi said of the devices that trained; of all busy ones where that is not known."""
    if not run.on_device:
        return None
    used = list(devices.values())
    if not used:
        kind = trained_on[-1].backend if trained_on else None
        if kind not in (None, CUDA):
            return Missing(f"no accelerator was sampled: perfdoctor reads no counters of {kind} devices")
        return Missing("no accelerator was sampled: neither NVML nor amdsmi told of one")

    def over_devices(key: str, combine: Callable[[list[float]], float]) -> float | None:
        means = [mean for rows in used if (mean := _mean(rows, key)) is not None]
        return combine(means) if means else None

    peaks = [most for rows in used for row in rows if (most := positive(row.get("memory_used_bytes")))]
    utilisation = over_devices("utilisation", lambda means: sum(means) / len(means))
    reasons: dict[str, str] = {}
    for rows in used:
        reasons.update({str(key): str(why) for key, why in (rows[-1].get("reasons") or {}).items()})
    return GpuFacts(
        names=tuple(str(rows[-1].get("name") or "accelerator") for rows in used),
        utilisation=min(1.0, utilisation) if utilisation is not None else None,
        memory_used_bytes=_whole(over_devices("memory_used_bytes", max)),
        memory_total_bytes=_whole(over_devices("memory_total_bytes", max)),
        power_w=over_devices("power_w", sum),
        memory_peak_bytes=round(max(peaks)) if peaks else None,
        reasons=reasons,
        free=_free([inside(rows, span) for index, rows in records.gpus.items() if index not in devices]),
    )


def _training(sampled: Mapping[int, Sequence[Json]], ranks: Iterable[RankRecords]) -> set[int]:
    """The devices that the ranks train on; none where it is not known of all: others may use the rest."""
    found: set[int] = set()
    for rank in ranks:
        told = {
            one
            for event in rank.of(TrainedDevicesEvent)
            for one in zip(event.devices, event.uuids, strict=False)
        }
        numbers = {_sampled_as(sampled, number, uuid) for number, uuid in told}
        known = {number for number in numbers if number is not None}
        if not known or len(known) < len(numbers):
            return set()
        found |= known
    return found


def _sampled_as(sampled: Mapping[int, Sequence[Json]], number: int, uuid: str) -> int | None:
    """Which of the sampled devices is torch's: by its identifier, else by its number among like ones."""
    last = {index: rows[-1] for index, rows in sampled.items() if rows}
    if uuid:
        ends = uuid.lower()
        named = [index for index, row in last.items() if str(row.get("uuid")).lower().endswith(ends)]
        return named[0] if len(named) == 1 else None
    alike = len({row.get("name") for row in last.values()}) == 1
    return number if alike and number in last else None


def _free(others: Sequence[Sequence[Json]]) -> int | None:
    """How many of these devices nobody computes on or keeps memory of; None where that is not told."""
    free = 0
    for rows in others:
        busy, used, total = (
            _mean(rows, key) for key in ("utilisation", "memory_used_bytes", "memory_total_bytes")
        )
        if busy is None or used is None or not total:
            return None
        free += busy < SPARE and used < SPARE * total
    return free


def _mean(rows: Sequence[Json], key: str, default: float | None = None) -> float | None:
    known = [number(row[key]) for row in rows if row.get(key) is not None]
    return sum(known) / len(known) if known else default
