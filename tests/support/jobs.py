"""Folders of jobs of many ranks, as the probe writes them: who comes late and how long data move is planted."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfdoctor.model.measured import Marker
from perfdoctor.wire.collective_rows import COLLECTIVES, NOW, NOW_BYTE
from tests.support.records import MS, STEP_LAYOUT

HEADER_BYTES, GROW_BYTES = 4096, 256 * 1024
ALL_REDUCE, DDP = 1, 2
COLLECTIVE_LAYOUT = np.dtype(COLLECTIVES.described)
PHASES = {"data_wait": 1.0, "other": 0.5, "forward": 4.0, "backward": 6.0, "optimizer_ns": 1.0}
BEGIN_NS = 5_000 * MS  # of the first step, on the clock of the first node
STARTED_NS = 1_000 * MS  # when the command was started, on the same clock
EPOCH_S = 1_700_000_000.0  # when that clock showed 0
LISTED = 96  # processes in a sample of the host

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Planted:
    """What was written: `exposed_ns` is (ranks, exchanges), `moving_ns` is (exchanges,)."""

    folders: tuple[Path, ...]  # in the order of their ranks
    world: int
    exposed_ns: Ints  # how long each rank was blocked in each exchange
    moving_ns: Ints  # of that, with every rank there
    arrival_ns: Ints  # (ranks, exchanges) on the first node's clock
    end_ns: Ints  # (exchanges,) on the first node's clock
    late: int | None
    late_ns: int  # planted delay of each step that the rank is late in


@dataclass(frozen=True)
class _Job:
    """What all files of a job have in common."""

    ranks: int
    nodes: int
    world: int
    steps: int
    exchanges: int  # in each step
    attempt: int
    id: str | None
    per_task: bool
    clocks_s: Sequence[float]
    clock_errors_s: Sequence[float]
    versions: Sequence[str]
    exit_code: int | None

    def node(self, rank: int) -> int:
        """The number of the rank's node."""
        return rank * self.nodes // self.ranks

    def shift_ns(self, node: int) -> int:
        """What a node's clock shows more than the first one's."""
        return round(self.clocks_s[node % len(self.clocks_s)] * 1e9)

    def epoch_s(self, at_ns: int, node: int) -> float:
        """The time of day that a node shows at a time of the first node's clock."""
        return EPOCH_S + at_ns / 1e9 + self.clock_errors_s[node % len(self.clock_errors_s)]

    def pid(self, rank: int) -> int:
        """The rank's process."""
        return 100_000 * (self.attempt + 1) + rank

    def told(self, rank: int) -> dict[str, Any]:
        """What the boot record says of the rank."""
        each = self.ranks // self.nodes
        job = {
            "rank": rank,
            "world": self.world,
            "local_rank": rank % each,
            "node_rank": self.node(rank),
            "host": f"node{self.node(rank)}",
        }
        if self.id:
            job["id"] = self.id
        return job if self.per_task else job | {"local_world": each, "attempt": self.attempt}


def write_job(
    folder: Path,
    ranks: int = 2,
    steps: int = 100,
    nodes: int = 1,
    *,
    late: int | None = None,
    late_ms: float = 0.0,
    late_phase: str = "data_wait",  # a column of the step record, or "other"
    late_every: int = 1,
    moving_ms: float = 2.0,
    hidden_ms: float = 1.0,
    phases: Mapping[str, float] = PHASES,
    exchanges: int = 1,
    jitter: float = 0.02,
    nbytes: int = 4_000_000,
    buckets: int = 2,
    clocks_s: Sequence[float] = (0.0, 7_200.25, 3_600.5),  # of each node's monotonic clock, over and over
    clock_errors_s: Sequence[float] = (0.0, 0.004, -0.003),  # of each node's time of day
    delays: Mapping[int, float] | None = None,  # of a rank: seconds ready without a core, per second
    cores: Mapping[int, float] | None = None,  # that a rank keeps busy; 1.0 without
    missing: Collection[int] = (),  # ranks that leave nothing
    mute: Collection[int] = (),  # ranks that start and record nothing
    stopped: Mapping[int, int] | None = None,  # ranks whose record ends after so many steps
    inside: Collection[int] = (),  # ranks whose record ends within a collective
    per_task: bool = False,  # a folder for each rank, as where each task starts its own perfdoctor
    world: int | None = None,
    attempt: int = 0,
    job_id: str | None = "none at node0:29500",
    begin_ns: int = BEGIN_NS,
    versions: Sequence[str] = ("0.1.0",),  # of perfdoctor, of each node
    exit_code: int | None = 0,
    seed: int = 0,
) -> Planted:
    """Write the folders `node0`, `node1`, ... (or `task0`, ...) below `folder`.

    Written into the same folder again with another `attempt`, a job restarts.
    """
    job = _Job(
        ranks, nodes, world or ranks, steps, exchanges, attempt, job_id, per_task, clocks_s, clock_errors_s,
        versions, exit_code,
    )  # fmt: skip
    spent = _spent(job, phases, jitter, seed)
    if late is not None:
        spent[late_phase][late, :: exchanges * late_every] += round(late_ms * MS)
    moving_ns = _jittered(np.full(steps * exchanges, moving_ms * MS), jitter, seed + 1)
    arrival_ns, end_ns = _meet(spent, moving_ns, begin_ns, exchanges)
    planted = Planted(
        (), job.world, end_ns - arrival_ns, moving_ns, arrival_ns, end_ns, late, round(late_ms * MS)
    )
    folders: dict[Path, list[int]] = {}
    for rank in range(ranks):
        own = folder / (f"task{rank}" if per_task else f"node{job.node(rank)}")
        own.mkdir(parents=True, exist_ok=True)
        folders.setdefault(own, [])
        if rank not in missing:
            folders[own].append(rank)
        if rank in missing or rank in mute:
            continue
        shift_ns, count = job.shift_ns(job.node(rank)), (stopped or {}).get(rank, steps)
        table = _step_rows(rank, spent, planted, begin_ns, exchanges)
        called = _collective_rows(rank, planted, job, nbytes, buckets, round(hidden_ms * MS))
        table, called = table[:count], called[: count * exchanges]
        for rows in (table, called):
            rows["begin_ns"] += shift_ns
            rows["end_ns"] += shift_ns
        now = NOW.pack(int(table["end_ns"][-1]), count, nbytes, count * exchanges, 0, ALL_REDUCE, 1)
        _write_rank(own, rank, job, table, called, now if rank in inside else b"")
    for number, (own, held) in enumerate(folders.items()):
        _write_node(
            own, number * nodes // len(folders), held, job, int(end_ns[-1]), delays or {}, cores or {}
        )
    return Planted(tuple(folders), *list(vars(planted).values())[1:])


# ---------------------------------------------------------------- times


def _jittered(values: npt.NDArray[np.float64], jitter: float, seed: int) -> Ints:
    """Values that vary by a share of themselves, in whole nanoseconds."""
    drawn = np.random.default_rng(seed).standard_normal(values.shape)
    return np.maximum(0, values * (1 + jitter * drawn)).astype(np.int64)


def _spent(job: _Job, phases: Mapping[str, float], jitter: float, seed: int) -> dict[str, Ints]:
    """Nanoseconds of each phase: (ranks, exchanges), those of the optimizer at the last one of a step."""
    shape = (job.ranks, job.steps * job.exchanges)
    spent = {
        name: _jittered(np.full(shape, phases.get(name, 0.0) * MS / job.exchanges), jitter, seed + 10 + index)
        for index, name in enumerate((*PHASES, "host_to_device", "validation", "checkpoint"))
    }
    optimizer = spent["optimizer_ns"] * job.exchanges
    optimizer[:, np.arange(shape[1]) % job.exchanges != job.exchanges - 1] = 0
    return spent | {"optimizer_ns": optimizer}


def _meet(spent: Mapping[str, Ints], moving_ns: Ints, begin_ns: int, exchanges: int) -> tuple[Ints, Ints]:
    """When each rank comes to each exchange, (ranks, exchanges), and when each is over, (exchanges,)."""
    work = sum((values for name, values in spent.items() if name != "optimizer_ns"), np.int64(0))
    before = np.zeros_like(work)
    before[:, 1:] = spent["optimizer_ns"][:, :-1]
    taken = np.asarray(work + before)
    end_ns = begin_ns + np.cumsum(taken.max(axis=0) + moving_ns)
    return np.concatenate([[begin_ns], end_ns[:-1]]) + taken, end_ns


def _step_rows(
    rank: int, spent: Mapping[str, Ints], planted: Planted, begin_ns: int, exchanges: int
) -> npt.NDArray[np.void]:
    """A row for each update."""
    count = len(planted.end_ns) // exchanges
    table = np.zeros(count, dtype=STEP_LAYOUT)

    def each_step(values: Ints) -> Ints:
        return values.reshape(count, exchanges).sum(axis=1)

    for name in ("data_wait", "host_to_device", "forward", "backward", "validation", "checkpoint"):
        table[name] = each_step(spent[name][rank])
    table["optimizer_ns"] = each_step(spent["optimizer_ns"][rank])
    table["grad_sync"] = each_step(planted.exposed_ns[rank])
    table["end_ns"] = planted.end_ns[exchanges - 1 :: exchanges] + table["optimizer_ns"]
    table["begin_ns"] = np.concatenate([[begin_ns], table["end_ns"][:-1]])
    table["marker"], table["optimizer"], table["marks"] = Marker.UPDATE, 1, 1
    table["backwards"] = table["batches"] = table["calls"] = exchanges
    table["switches"], table["samples"] = 6 * exchanges, 32 * exchanges
    table["loss"] = 1.0 / (1 + np.arange(count))
    table["process_cpu_ns"] = table["forward"] + table["backward"]
    return table


def _collective_rows(
    rank: int, planted: Planted, job: _Job, nbytes: int, buckets: int, hidden_ns: int
) -> npt.NDArray[np.void]:
    """A row for each exchange of gradients."""
    count = len(planted.end_ns)
    table = np.zeros(count, dtype=COLLECTIVE_LAYOUT)
    table["end_ns"] = planted.end_ns
    table["begin_ns"] = planted.arrival_ns[rank] - hidden_ns
    table["wait_ns"] = planted.exposed_ns[rank]
    table["bytes"], table["buckets"], table["ranks"] = nbytes, buckets, job.world
    table["step"], table["sequence"] = np.arange(count) // job.exchanges, np.arange(count)
    table["op"], table["flags"] = ALL_REDUCE, DDP
    return table


# ---------------------------------------------------------------- files


def _write_rank(
    folder: Path,
    rank: int,
    job: _Job,
    steps: npt.NDArray[np.void],
    called: npt.NDArray[np.void],
    now: bytes,
) -> None:
    tag = f"rank{rank}"
    if (folder / f"steps.{tag}.bin").exists():
        tag = f"rank{rank}.{job.pid(rank)}"
    opened_ns, node = int(steps["begin_ns"][0]), job.node(rank)
    opened_s = job.epoch_s(opened_ns - job.shift_ns(node), node)
    for kind, rows, slot in (("steps", steps, b""), ("collectives", called, now)):
        header = _header(kind, rows.dtype, rank, job.pid(rank), opened_ns, opened_s)
        write_rows(folder / f"{kind}.{tag}.bin", header, rows, slot)
    events: list[dict[str, Any]] = [
        {"event": "cost", "switch_ns": 300.0, "call_ns": 200.0, "row_ns": 1500.0},
        {"event": "optimizer", "number": 1, "type": "SGD"},
        {"event": "end", "broken": []},
    ]
    times = (opened_ns, opened_ns, int(steps["end_ns"][-1]))
    _append(
        folder / f"events.{tag}.jsonl",
        [entry | {"t_ns": at, "pid": job.pid(rank)} for entry, at in zip(events, times, strict=True)],
    )


def _header(
    kind: str, layout: np.dtype[np.void], rank: int, pid: int, opened_ns: int, opened_s: float
) -> bytes:
    names = layout.names or ()
    fields = {
        "schema": "perfdoctor.rows/1",
        "kind": kind,
        "rank": rank,
        "pid": pid,
        "row_bytes": layout.itemsize,
        "header_bytes": HEADER_BYTES,
        "columns": [[name, layout[name].str.replace("|", "<")] for name in names],
        "opened_ns": opened_ns,
        "opened_epoch_s": opened_s,
    }
    return (json.dumps(fields).encode() + b"\n").ljust(HEADER_BYTES - 1) + b"\n"


def write_rows(path: Path, header: bytes, rows: npt.NDArray[np.void], now: bytes = b"") -> None:
    """A rows file, allocated ahead as the probe does; `now` goes into its slot in the header."""
    with open(path, "wb") as file:
        file.write(header[:NOW_BYTE] + now + header[NOW_BYTE + len(now) :])
        rows.tofile(file)
        blocks = -(-rows.nbytes // GROW_BYTES) or 1
        file.truncate(HEADER_BYTES + blocks * GROW_BYTES)


def _append(path: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.writelines(json.dumps(entry) + "\n" for entry in entries)


def _write_node(
    folder: Path,
    node: int,
    held: Sequence[int],
    job: _Job,
    end_ns: int,
    delays: Mapping[int, float],
    cores: Mapping[int, float],
) -> None:
    """run.json, the boot records, and samples of the host."""
    shift_ns = job.shift_ns(node)
    run = {
        "schema": "perfdoctor.run/1",
        "id": folder.name,
        "command": ["torchrun", f"--nproc-per-node={job.ranks // job.nodes}", "train.py"],
        "cwd": "/home/ada",
        "pid": 7,
        "started_epoch_s": job.epoch_s(STARTED_NS, node),
        "begin_ns": STARTED_NS + shift_ns,
        "end_ns": end_ns + 1_000 * MS + shift_ns,
        "exit_code": job.exit_code,
        "outcome": "running" if job.exit_code is None else "failed" if job.exit_code else "ok",
        "versions": {"perfdoctor": job.versions[node % len(job.versions)], "python": "3.12.0"},
        "host": {"name": f"node{node}", "cores": 8, "usable_cores": 8.0, "limited_by": "machine"},
        "environment": {},
        "tweaks": {},
        "notes": [],
    }
    (folder / "run.json").write_text(json.dumps(run))
    boot = {"event": "boot", "python": "3.12.0", "torch": "2.13.0", "threads": 1, "threads_env": {}}
    begun = {"t_ns": STARTED_NS + shift_ns, "begin_ns": STARTED_NS + shift_ns}
    boots = [boot | begun | {"pid": job.pid(rank), "job": job.told(rank)} for rank in held]
    _append(folder / "boot.jsonl", boots)
    times = np.linspace(STARTED_NS, end_ns, 12)
    samples = (_sample(float(at), shift_ns, held[:LISTED], job, delays, cores) for at in times)
    _append(folder / "host.jsonl", list(samples))


def _sample(
    at_ns: float,
    shift_ns: int,
    held: Sequence[int],
    job: _Job,
    delays: Mapping[int, float],
    cores: Mapping[int, float],
) -> dict[str, Any]:
    seconds = (at_ns - STARTED_NS) / 1e9
    return {
        "t_ns": round(at_ns) + shift_ns,
        "interval_s": 1.0,
        "usable_cores": 8.0,
        "machine_busy_cores": sum(cores.get(rank, 1.0) for rank in held),
        "procs": [
            {
                "pid": job.pid(rank),
                "role": "main",
                "rank": rank,
                "cpu_s": seconds * cores.get(rank, 1.0),
                "threads": 4,
                "rss_bytes": 500_000_000,
                "threads_delay_s": seconds * delays.get(rank, 0.0),
            }
            for rank in held
        ],
        "net": None,
        "shm": None,
        "memory": {"total_bytes": 64_000_000_000, "available_bytes": 32_000_000_000},
    }
