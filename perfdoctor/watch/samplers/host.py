"""Samples the host about once a second: the run's processes, memory, disk, network, shared memory."""

from __future__ import annotations

import itertools
import math
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from perfdoctor.runs.directory import HOST_SAMPLES, append_line
from perfdoctor.watch.samplers import cgroup
from perfdoctor.watch.samplers.disk import DiskBytes
from perfdoctor.watch.samplers.network import Network
from perfdoctor.watch.samplers.processes import ProcessTree, RunProcess
from perfdoctor.watch.samplers.storage import Storage
from perfdoctor.wire.core_list import core_list

FIRST_INTERVAL_S = 1.0
# From here on the interval is a fixed share of the time elapsed: what happened stays resolved as finely as
# the run is long, and the file grows with the logarithm of it (an hour 1700 lines, ten hours 3700).
STEADY_AFTER_S = 600.0
LONGEST_INTERVAL_S = 60.0
EARLY_S = 0.05  # a tick may come a little before its time
COST_SHARE = 0.006  # of one core; a tree of hundreds of processes is sampled less often, not at more cost
COST_SAMPLES = 8  # the cost is a mean over about this many: one that reads memory maps costs three times more
MOST_LISTED = 512  # processes a line: reading them costs so much that long lines are seldom (COST_SHARE)

MAPS_INTERVAL_S = 10.0  # reading smaps_rollup walks the process's page tables under its memory lock
MAPS_COST_SHARE = 0.001  # of the time of the process that is held up by it
MAPS_PER_SAMPLE = 4
SETTLED_S = 3.0  # younger processes are not asked: workers that restart each epoch would be walked each time

LIMITS_INTERVAL_S = 60.0  # quotas may change under way; rarely
MOST_THREADS = 64  # of a training process that are looked at: those of torch, which come first
MOST_BOUND = 1024  # threads of it whose cores are asked for
BINDING = re.compile(rb"(?:^|\0)(?:OMP_PROC_BIND|OMP_PLACES|GOMP_CPU_AFFINITY|KMP_AFFINITY)=")
NOT_BUSY = ("guest", "guest_nice", "steal")  # guests are in user time already; stolen time is not ours
MOST_CLOCKS = 8  # cores whose clock is read: each reading asks the core itself
MOST_READERS = 4  # loader workers whose open files are looked at: they do the same work
SHARED_MEMORY = "/dev/shm"
CPU_FOLDER = "/sys/devices/system/cpu"


def usable_cores(
    pid: int | None = None, root: Path = Path("/"), ranks: Sequence[int] = ()
) -> tuple[float, str]:
    """Cores that `pid` (this process where None) may use, with those of other `ranks`, and what limits them.

    The limit is `machine`, `cpuset`, `affinity` or `cgroup quota`; of equal ones, the first of these.
    """
    limits = cgroup.limits(pid, root)
    machine = float(os.cpu_count() or 1)
    candidates = [(machine, "machine")]
    if limits.cpuset_cores is not None:
        candidates.append((float(limits.cpuset_cores), "cpuset"))
    affinity = reachable_cores(pid, ranks)
    if affinity:
        candidates.append((float(len(affinity)), "affinity"))
    if limits.quota_cores is not None:
        candidates.append((limits.quota_cores, "cgroup quota"))
    return min(candidates, key=lambda candidate: candidate[0])


def reachable_cores(pid: int | None, ranks: Sequence[int] = ()) -> frozenset[int]:
    """The cores on which these processes may run, by number; none where that cannot be known."""
    return frozenset().union(*map(_affinity, {pid or 0, *ranks}))


def _affinity(pid: int) -> frozenset[int]:
    """The cores on which a process may run; none where that cannot be known."""
    if not hasattr(os, "sched_getaffinity"):
        return frozenset()
    cores: set[int] = set()
    for thread in _bound_threads(pid) or [pid]:
        with suppress(OSError):  # it has ended
            cores |= os.sched_getaffinity(thread)
    return frozenset(cores)


def _bound_threads(pid: int) -> list[int]:
    """The threads of a process that has OpenMP bind each of them, the first one too, to cores of its own."""
    process = Path(f"/proc/{pid or 'self'}")
    try:
        if BINDING.search((process / "environ").read_bytes()):
            return sorted(int(name) for name in os.listdir(process / "task"))[:MOST_BOUND]
    except OSError:
        pass  # it has ended, or is not ours to look at
    return []


def whole_cores(cores: Iterable[int], folder: Path = Path(CPU_FOLDER)) -> int | None:
    """How many cores of the processor these are, hyper-threads of one counted once; None if not told."""
    try:
        shared = {(folder / f"cpu{core}" / "topology" / "thread_siblings_list").read_text() for core in cores}
    except OSError:
        return None
    return len(shared) or None


class HostSampler:
    """Appends lines to host.jsonl; `own_cpu_s` tells what perfdoctor's helpers have used so far."""

    def __init__(self, run: Path, tree: ProcessTree, own_cpu_s: Callable[[], float] = lambda: 0.0) -> None:
        self._path = run / HOST_SAMPLES
        self._tree = tree
        self._own_cpu_s = own_cpu_s
        self._began_s = time.monotonic()
        self._last_s: float | None = None
        self._due_s = self._began_s
        self._busy = _BusyCores()
        self._cost_s = 0.0  # of a sample, smoothed
        self._limits: tuple[float, float] | None = None  # (read when, cores)
        self._reachable: frozenset[int] = frozenset()
        self._whole: int | None = None  # cores of the processor among these
        self._bound: dict[int, str] = {}  # training processes, and the cores that each may run on
        self._maps = _Maps()
        self._disk = DiskBytes()
        self._storage = Storage()
        self._network = Network()

    def tick(self, now_s: float) -> bool:
        """Write a line if one is due; True if it did."""
        if now_s < self._due_s:
            return False
        began = time.thread_time()
        append_line(self._path, self.sample(now_s))
        spent = time.thread_time() - began
        self._cost_s += (spent - self._cost_s) / COST_SAMPLES
        self._due_s = now_s + interval_s(now_s - self._began_s, self._cost_s) - EARLY_S
        return True

    def sample(self, now_s: float) -> dict[str, Any]:
        """One line of host.jsonl."""
        members = self._tree.look(now_s)
        self._maps.choose([member.process for member in members], now_s)
        self._disk.keep(member.pid for member in members)
        listed = [reading for member in members[:MOST_LISTED] if (reading := self._reading(member, now_s))]
        self._maps.keep(member.pid for member in members)
        interval = None if self._last_s is None else round(now_s - self._last_s, 3)
        self._last_s = now_s
        return {
            "t_ns": time.perf_counter_ns(),
            "interval_s": interval,
            "usable_cores": self._usable_cores(members, now_s),
            "machine_busy_cores": self._busy.of(self._reachable),
            "machine_cores": len(self._reachable) or None,
            "whole_cores": self._whole,
            "clock_hz": clock_hz(Path(CPU_FOLDER)),
            "procs": listed,
            "left_out": max(0, len(members) - MOST_LISTED),
            "net": self._network.read(),
            "shm": _shared_memory(),
            "memory": _memory(members),
            "storage": self._storage.in_use(_readers(members)),
            "perfdoctor_cpu_s": round(time.process_time() + self._own_cpu_s(), 3),
        }

    def _reading(self, member: RunProcess, now_s: float) -> dict[str, Any] | None:
        process = member.process
        try:
            with process.oneshot():
                cpu = process.cpu_times()
                reading: dict[str, Any] = {
                    "pid": member.pid,
                    "role": member.role,
                    "rank": member.rank,
                    "cpu_s": round(cpu.user + cpu.system, 3),
                    "threads": process.num_threads(),
                    "rss_bytes": (memory := process.memory_info()).rss,
                    # what no file is behind, its own or inherited by a fork: it grows with new memory only
                    "anonymous_bytes": memory.rss - memory.shared if hasattr(memory, "shared") else None,
                }
        except psutil.Error:
            return None  # it ended while it was read
        # CPU of children that have ended: what workers used that came and went between two samples.
        reading["ended_children_cpu_s"] = _ended_children(cpu)
        if member.role != "other":
            reading["thread_cpu_s"], reading["thread_delay_s"] = read_schedule(Path(f"/proc/{member.pid}"))
        if member.role == "main":
            reading["threads_delay_s"] = threads_delay_s(Path(f"/proc/{member.pid}/task"))
            reading["cores"] = self._bound.get(member.pid)
        maps = self._maps.of(process, now_s)
        reading["private_bytes"], reading["shared_bytes"], reading["pss_bytes"] = maps
        reading["read_bytes"], reading["written_bytes"] = self._disk.of(process)
        return reading

    def _usable_cores(self, members: list[RunProcess], now_s: float) -> float:
        mains = [member.pid for member in members if member.role == "main"]
        known = self._bound.keys() >= set(mains)  # ranks start one after the other
        if self._limits is None or not known or now_s - self._limits[0] >= LIMITS_INTERVAL_S:
            main = mains[0] if mains else None
            # Before there is a training process, ask again soon: it may have narrowed itself.
            read_s = now_s if main is not None else -math.inf
            self._limits = (read_s, usable_cores(main, ranks=mains)[0])
            self._reachable = reachable_cores(main, mains)
            self._whole = whole_cores(self._reachable)
            self._bound = {pid: core_list(_affinity(pid)) for pid in mains}
        return self._limits[1]


class _BusyCores:
    """How many of some cores are busy, with whatever process."""

    def __init__(self) -> None:
        self._before: tuple[frozenset[int], float, float] | None = None  # cores, CPU seconds, when

    def of(self, cores: frozenset[int]) -> float | None:
        """Their mean since the last call, which was about the same cores; of all where there are none."""
        each = psutil.cpu_times(percpu=True) if 0 < len(cores) < (os.cpu_count() or 1) else []
        # Where cores are offline, which have no line, those behind them have another place: all, then.
        known = bool(each) and max(cores) < len(each)
        chosen = [each[core] for core in sorted(cores)] if known else [psutil.cpu_times()]
        busy_s = sum(map(_busy_s, chosen))
        before, self._before = self._before, (cores, busy_s, time.monotonic())
        if before is None or before[0] != cores or self._before[2] <= before[2]:
            return None
        return round(max(0.0, (busy_s - before[1]) / (self._before[2] - before[2])), 3)


def _busy_s(times: Any) -> float:
    idle = times.idle + getattr(times, "iowait", 0.0)
    return float(sum(times) - idle - sum(getattr(times, name, 0.0) for name in NOT_BUSY))


def _memory(members: Sequence[RunProcess]) -> dict[str, int | None] | None:
    """Of the machine, and of the training process's control groups, whose limit may be reached in seconds."""
    try:
        memory = psutil.virtual_memory()
    except (OSError, RuntimeError):
        return None
    limit, left = cgroup.memory(next((member.pid for member in members if member.role == "main"), None))
    return {
        "total_bytes": memory.total if limit is None else min(limit, memory.total),
        "available_bytes": memory.available,
        "limit_left_bytes": left,
        "swapped_in_bytes": _swapped_in_bytes(),
    }


def _readers(members: list[RunProcess]) -> list[int]:
    """Who reads data: a few loader workers, or the training process where there are none."""
    for role in ("worker", "main"):
        pids = [member.pid for member in members if member.role == role]
        if pids:
            return pids[:MOST_READERS]
    return []


def interval_s(elapsed_s: float, cost_s: float) -> float:
    """How long to wait for the next sample, `elapsed_s` into the run, when one takes `cost_s` of CPU."""
    wanted = max(FIRST_INTERVAL_S, elapsed_s * FIRST_INTERVAL_S / STEADY_AFTER_S, cost_s / COST_SHARE)
    return min(wanted, LONGEST_INTERVAL_S)


class HeldPages(NamedTuple):
    """Bytes of a process's pages; None where they are not known."""

    private: int | None = None
    shared: int | None = None
    pss: int | None = None  # its proportional set: each page divided by the processes that have it


class _Maps:
    """What memory of processes is private and shared, read seldom and remembered.

    Proportional sets add up to what is held only if all were read while the same processes shared pages: when
    one comes or goes, those of before are forgotten and all processes are read again.
    """

    def __init__(self) -> None:
        self._known: dict[int, HeldPages] = {}
        self._read_s: dict[int, float] = {}
        self._rested_s: dict[int, float] = {}  # from when on a reading does not cost too much again
        self._living: set[int] = set()
        self._together: set[int] = set()  # read since the last one came or went
        self._chosen: set[int] = set()

    def choose(self, processes: Sequence[psutil.Process], now_s: float) -> None:
        """Choose those to read now: the ones that have waited longest, of many processes too."""
        living = {process.pid for process in processes}
        if living != self._living:
            self._living, self._together = living, set()
        due = [process for process in processes if now_s >= self._due_s(process.pid)]
        due.sort(key=lambda process: self._due_s(process.pid))
        settled = (process.pid for process in due if _age_s(process) > SETTLED_S)
        self._chosen = set(itertools.islice(settled, MAPS_PER_SAMPLE))

    def _due_s(self, pid: int) -> float:
        pause_s = MAPS_INTERVAL_S if pid in self._together else 0.0
        return max(self._rested_s.get(pid, 0.0), self._read_s.get(pid, -math.inf) + pause_s)

    def of(self, process: psutil.Process, now_s: float) -> HeldPages:
        """What was last read of a process, now if it has its turn."""
        pid = process.pid
        if pid in self._chosen:
            began = time.thread_time()  # a wait for a core is no cost of reading
            self._known[pid] = read_maps(Path(f"/proc/{pid}/smaps_rollup"))
            self._read_s[pid] = now_s
            self._rested_s[pid] = now_s + (time.thread_time() - began) / MAPS_COST_SHARE
            self._together.add(pid)
        known = self._known.get(pid, HeldPages())
        return known if pid in self._together else known._replace(pss=None)

    def keep(self, pids: Iterable[int]) -> None:
        """Forget every other process."""
        for ended in self._known.keys() - set(pids):
            for each in (self._known, self._read_s, self._rested_s):
                del each[ended]


def _age_s(process: psutil.Process) -> float:
    try:
        return time.time() - process.create_time()
    except psutil.Error:
        return 0.0  # it has ended


def read_maps(path: Path) -> HeldPages:
    """What a smaps_rollup file tells; nothing where it is not there or not readable."""
    sums: Counter[bytes] = Counter()
    try:
        with open(path, "rb") as file:
            for line in file:
                name, _, rest = line.partition(b":")
                kind = name.partition(b"_")[0]
                if name == b"Pss" or (kind in (b"Private", b"Shared") and kind != name):
                    sums[kind] += int(rest.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        return HeldPages()
    if not sums.keys() & {b"Private", b"Shared"}:
        return HeldPages()
    return HeldPages(sums[b"Private"], sums[b"Shared"], sums.get(b"Pss"))


def read_schedule(process: Path) -> tuple[float | None, float | None]:
    """Seconds that a process's first thread ran, and that it was ready but had no core; None if unknown."""
    try:
        ran_ns, waited_ns, _ = (process / "task" / process.name / "schedstat").read_bytes().split()
        return int(ran_ns) / 1e9, int(waited_ns) / 1e9
    except (OSError, ValueError):
        return None, None


def threads_delay_s(tasks: Path) -> float | None:
    """Seconds that all threads of a process together were ready but had no core; None if unknown."""
    total_ns, readable = 0, False
    try:
        for task in sorted(os.listdir(tasks))[:MOST_THREADS]:
            with suppress(OSError, ValueError, IndexError):  # a thread may end while it is read
                total_ns += int((tasks / task / "schedstat").read_bytes().split()[1])
                readable = True
    except OSError:
        return None
    return total_ns / 1e9 if readable else None


def clock_hz(folder: Path) -> float | None:
    """The mean clock of the first cores now, in hertz; None where the machine does not tell it."""
    seen = []
    for core in range(MOST_CLOCKS):
        with suppress(OSError, ValueError):
            seen.append(int((folder / f"cpu{core}" / "cpufreq" / "scaling_cur_freq").read_bytes()) * 1e3)
    return sum(seen) / len(seen) if seen else None


def _swapped_in_bytes() -> int | None:
    """Bytes that the whole machine has read back from swap so far."""
    try:
        with open("/proc/vmstat", "rb") as file:
            pages = next(int(line.split()[1]) for line in file if line.startswith(b"pswpin "))
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _ended_children(cpu: Any) -> float | None:
    if not hasattr(cpu, "children_user"):
        return None
    return round(float(cpu.children_user + cpu.children_system), 3)


def _shared_memory() -> dict[str, int] | None:
    try:
        status = os.statvfs(SHARED_MEMORY)
    except OSError:
        return None
    return {"total_bytes": status.f_blocks * status.f_frsize, "free_bytes": status.f_bavail * status.f_frsize}
