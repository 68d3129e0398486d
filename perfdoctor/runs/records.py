"""What a run directory holds, read back whole or broken.

Raw files are append-only and readable at any moment; a missing or truncated one becomes a sentence in
`RunRecords.problems`. Nothing in here runs or unpickles anything that it reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from perfdoctor.errors import NoSuchRun, NotARun
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.note import Note
from perfdoctor.runs import interruption
from perfdoctor.runs.directory import (
    ANY_RANK,
    HOST_SAMPLES,
    LIST,
    RANGES,
    RUN,
    SHARING,
    Json,
    full_since,
    gpu_file,
    option,
    read_json,
)
from perfdoctor.runs.json_text import whole
from perfdoctor.runs.raw import (
    Rows,
    Stack,
    read_header,
    read_lines,
    read_now,
    read_rows,
    read_stack_rate,
    read_stacks,
)
from perfdoctor.runs.types import RankRecords, RunRecords
from perfdoctor.runs.unended import settled
from perfdoctor.wire import names
from perfdoctor.wire.events.device_errors import DeviceErrorEvent
from perfdoctor.wire.step_rows import BACKWARD_DONE, BATCH, CALL, END, UPDATE

__all__ = [
    "Folder", "Process", "RankRecords", "Rows", "RunRecords", "Stack", "look", "read", "read_rank",
    "read_rows", "records_of", "steps_made", "whole",
]  # fmt: skip

LOST = "lost-file"  # the note on a file without which a run cannot be judged
NO_ROOM_FOR_STEPS = "disk-full-no-steps"  # the note on it
UNUSABLE = {  # kinds of errors of a device, and the note on each
    "no-driver": "device-no-driver",
    "old-driver": "device-old-driver",
    "held": "device-held",
    "lost": "device-lost",
}

MOST_RANKS = 2**20  # of a job: ten times the largest ones, and few enough to be counted up
# What launchers tell of a process, and of its end.
TOLD = {"event": str, "host": str} | dict.fromkeys(("rank", "attempt", "pid", "exitcode", "t_ns"), int)


@dataclass(frozen=True)
class Process:
    """A process that trained, as the names and headers of its files tell; nothing else of it was read."""

    tag: str  # of its files: `rank0`, or `rank0.<pid>` for a further process of the same rank
    rank: int
    pid: int | None
    opened_epoch_s: float  # when it began to record; 0 where that is not known
    boot: Json

    @property
    def job(self) -> Json:
        """What its launcher told it."""
        return told_job(self.boot)

    @property
    def attempt(self) -> int | None:
        """Which start of the job by its launcher it belongs to, from 0."""
        return whole(self.job, "attempt")


@dataclass(frozen=True)
class Folder:
    """A run directory and the processes that are shown of it; what ranks recorded is read when asked for."""

    path: Path
    run: Json
    boots: tuple[Json, ...]
    processes: Mapping[int, Process]  # one of each rank
    attempt: int  # the one that they belong to
    failures: tuple[Json, ...]
    problems: tuple[Note, ...]
    restarts: tuple[Note, ...] = ()  # that there were other attempts

    @cached_property
    def host_name(self) -> str:
        """The host that was sampled, and where the ranks ran that do not tell."""
        told = self.run.get("host")
        name = told.get("name") if isinstance(told, dict) else None
        return str(name or self.path.name)

    def host(self, problems: list[Note]) -> tuple[Json, ...]:
        """The samples of the host."""
        return tuple(read_lines(self.path / HOST_SAMPLES, problems))

    def trained(self, rank: int) -> bool:
        """Whether the rank made a step."""
        return _made(self.path, self.processes[rank]) > 0

    def named(self, rank: int, host: Sequence[Json] = ()) -> RankRecords:
        """The rank without anything that it recorded."""
        process = self.processes[rank]
        node = str(process.job.get("host") or self.host_name)
        own_host = host if node == self.host_name else ()
        return RankRecords(
            rank, None, None, (), pid=process.pid, node=node, job=process.job, boot=process.boot,
            run=self.run, host=own_host,
        )  # fmt: skip

    def told(self, rank: int, problems: list[Note], host: Sequence[Json] = ()) -> RankRecords:
        """The rank with its events."""
        events = read_lines(self.path / names.events_file(self.processes[rank].tag), problems)
        return replace(self.named(rank, host), events=tuple(events))

    def timed(self, rank: int, problems: list[Note], host: Sequence[Json] = ()) -> RankRecords:
        """The rank with its events, steps and collectives."""
        tag = self.processes[rank].tag
        file = self.path / names.rows_file("collectives", tag)
        steps = read_rows(self.path / names.rows_file("steps", tag), problems)
        collectives, now = read_rows(file, problems), read_now(file) or interruption.position(file, steps)
        return replace(self.told(rank, problems, host), steps=steps, collectives=collectives, now=now)

    def sampled(self, rank: int, problems: list[Note], host: Sequence[Json] = ()) -> RankRecords:
        """The rank with its events, steps, collectives and stacks."""
        file = self.path / names.stacks_file(self.processes[rank].tag)
        source, stacks = read_stacks(file, problems)
        rate_hz = read_stack_rate(file)
        own = self.timed(rank, problems, host)
        return replace(own, stacks=stacks, stacks_source=source, stacks_rate_hz=rate_hz)

    def whole(self, rank: int, problems: list[Note], host: Sequence[Json] = ()) -> RankRecords:
        """All that the rank and its loader workers recorded."""
        tag, own = self.processes[rank].tag, self.sampled(rank, problems, host)
        if steps_made(own.steps):  # a rank that trained has told something in both
            told = {names.events_file(tag): own.events, names.BOOT: own.boot}
            problems += [Note(LOST, {"file": name, "rank": rank}) for name in told if not told[name]]
        parts = [
            read_rows(self.path / names.rows_file(kind, tag), problems) for kind in ("loader", "workers")
        ]
        kept = [part for part in parts if part is not None and len(part)]
        alike = [part for part in kept if part.dtype == kept[0].dtype]
        return replace(own, loader=_with_loaders(np.concatenate(alike), own.events) if alike else None)


def read(path: Path, others: bool = True) -> RunRecords:
    """Read a run directory; what cannot be read is listed in `problems`.

    Without `others`, of the ranks after the first one that trained only the names are there.
    Raises NoSuchRun where there is no such folder and NotARun where it is not a run's.
    """
    return records_of(look(path), others)


def read_rank(path: Path, rank: int) -> RunRecords:
    """Read a run directory without what its other ranks recorded. Raises as `read` does."""
    folder = look(path)
    own = {each: process for each, process in folder.processes.items() if each == rank}
    return records_of(replace(folder, processes=own))


def records_of(folder: Folder, others: bool = True) -> RunRecords:
    """Read what `folder` shows, as `read` does."""
    problems: list[Note] = []
    host = folder.host(problems)
    ranks: dict[int, RankRecords] = {}
    trained = False
    for rank in sorted(folder.processes):
        if others or not trained:
            ranks[rank] = folder.whole(rank, problems, host)
            trained = trained or steps_made(ranks[rank].steps) > 0
        else:
            ranks[rank] = folder.named(rank, host)
    gpus = {
        int(file.stem[3:]): tuple(read_lines(file, problems))
        for file in sorted(folder.path.glob(gpu_file("[0-9]*")))
        if file.stem[3:].isdecimal()  # no copy that somebody made of one
    }
    return RunRecords(
        folder.path,
        folder.run,
        ranks,
        folder.boots,
        host,
        gpus,
        (*_disk_full(folder.path, ranks), *folder.restarts, *folder.problems, *dict.fromkeys(problems)),
        read_json(folder.path / SHARING),
        folder.failures,
        read_json(folder.path / RANGES),
    )


def _disk_full(path: Path, ranks: Mapping[int, RankRecords]) -> tuple[Note, ...]:
    """That the disk was full, since when, and what is missing; nothing where there was room."""
    since = full_since(path)
    if since is None:
        return ()
    told = {"since_epoch_s": since}
    steps = next((own.steps for _, own in sorted(ranks.items()) if steps_made(own.steps)), None)
    if steps is None:
        return (Note(NO_ROOM_FOR_STEPS, told),)
    if int(steps["marker"][-1]) != END:  # with which a script's end is noted
        return (Note("disk-full-after-steps", {**told, "steps": steps_made(steps)}),)
    return (Note("disk-full", told),)


def look(path: Path) -> Folder:
    """What a run directory holds, by the names and headers of its files. Raises as `read` does."""
    if not path.is_dir():
        raise NoSuchRun(f"no run at {path}", LIST + option(path))
    problems: list[Note] = []
    run = read_json(path / RUN)
    if run is None or not str(run.get("schema", "")).startswith("perfdoctor.run/"):
        if not any(path.glob(names.rows_file("steps", ANY_RANK))):
            raise NotARun(f"{path} is not a perfdoctor run", LIST + option(path))
        problems.append(Note("no-run-json"))
        run = {}
    run = settled(path, run)
    lines = tuple(read_lines(path / names.BOOT, problems))
    boots = tuple(line for line in lines if line.get("event") != DeviceErrorEvent.event)
    kinds = {line.get("kind") for line in lines if line.get("event") == DeviceErrorEvent.event}
    problems += [Note(slug) for kind, slug in UNUSABLE.items() if kind in kinds]
    booted: dict[int, list[Json]] = {}
    for boot in boots:
        booted.setdefault(whole(boot, "pid") or 0, []).append(boot)
    known = [_process(path, tag, booted) for tag in sorted(_tags(path))]
    attempt, restarts = _last_attempt(path, known, boots)
    processes = _shown(path, [own for own in known if own.attempt in (None, attempt)], problems)
    failures = tuple(_failure(entry, booted) for entry in read_lines(path / names.AGENT, problems))
    return Folder(path, run, boots, processes, attempt or 0, failures, tuple(problems), restarts)


def _process(path: Path, tag: str, booted: Mapping[int, Sequence[Json]]) -> Process:
    header = read_header(path / names.rows_file("steps", tag)) or {}
    rank, _, suffix = tag.removeprefix("rank").partition(".")
    pid = whole(header, "pid") or (int(suffix) if suffix else None)
    own = booted.get(pid, ()) if pid else ()
    # Process ids of several hosts in one folder may be the same: then the rank tells.
    told = [boot for boot in own if whole(boot.get("job"), "rank") == int(rank)]
    opened_s = header.get("opened_epoch_s")
    return Process(
        tag,
        int(rank),
        pid,
        float(opened_s) if isinstance(opened_s, (int, float)) else 0.0,
        next(iter([*told, *own]), {}),
    )


def _failure(entry: Json, booted: Mapping[int, Sequence[Json]]) -> Json:
    """What a launcher noticed; rank, attempt and host come from the boot record of the process."""
    boot: Json = next(iter(booted.get(whole(entry, "pid") or 0, ())), {})
    told = boot.get("job")
    known = told if isinstance(told, dict) else {}
    return _typed({name: known[name] for name in ("rank", "attempt", "host") if name in known} | entry)


def told_job(boot: Json) -> Json:
    """What the launcher told the process that wrote a boot record."""
    told = boot.get("job")
    return _typed(told) if isinstance(told, dict) else {}


def _typed(told: Json) -> Json:
    """It without what is of another type than a launcher tells, or no size of a job: that was not told."""
    typed = {name: value for name, value in told.items() if isinstance(value, TOLD.get(name, object))}
    if (whole(typed, "world") or 0) > MOST_RANKS:
        del typed["world"]
    return typed


def _shown(path: Path, known: Sequence[Process], problems: list[Note]) -> dict[int, Process]:
    """Each rank's process; where several processes of one rank trained, the one with the most steps."""
    found: dict[int, list[Process]] = {}
    for process in known:
        found.setdefault(process.rank, []).append(process)
    for rank, several in found.items():
        if len(several) > 1:
            problems.append(Note("several-processes", {"count": len(several), "rank": rank}))
            several.sort(key=lambda process: _length(_steps_of(path, process)))
    return {rank: several[-1] for rank, several in sorted(found.items())}


def _last_attempt(
    path: Path, known: Sequence[Process], boots: Iterable[Json]
) -> tuple[int | None, tuple[Note, ...]]:
    """The last attempt that trained; and a note on the others, with their steps."""
    started = {whole(boot.get("job"), "attempt") for boot in boots} | {own.attempt for own in known}
    attempts = sorted(attempt for attempt in started if attempt is not None)
    if len(attempts) < 2:
        return next(iter(attempts), None), ()
    made = {
        attempt: next((count for own in known if own.attempt == attempt and (count := _made(path, own))), 0)
        for attempt in attempts
    }
    last = max((attempt for attempt, count in made.items() if count), default=max(made))
    others = {number: count for number, count in made.items() if number != last}
    return last, (Note("started-again", {"times": len(made), "shown": last, "others": others}),)


def _made(path: Path, process: Process) -> int:
    return steps_made(_steps_of(path, process))


def _steps_of(path: Path, process: Process) -> Rows | None:
    return read_rows(path / names.rows_file("steps", process.tag), [])


def _tags(path: Path) -> set[str]:
    """`rank0`, or `rank0.<pid>` for a further process of the same rank."""
    tags = (
        re.fullmatch(r"(?:steps|events)\.(rank(\d{1,9})(?:\.\d{1,18})?)\.\w+", entry.name)
        for entry in path.iterdir()
    )
    return {match[1] for match in tags if match and int(match[2]) < MOST_RANKS}


def _length(steps: Rows | None) -> list[int]:
    """How much a process trained: markers of each kind, the strongest first."""
    if steps is None or not {"marks", "marker"} <= set(steps.dtype.names or ()):
        return []
    return [
        int(np.sum(steps["marks"][steps["marker"] == marker]))
        for marker in (UPDATE, BACKWARD_DONE, BATCH, CALL)
    ]


def steps_made(steps: Rows | None) -> int:
    """How many markers of the strongest kind a process made; several optimizers count each."""
    return next((count for count in _length(steps) if count), 0)


def _with_loaders(rows: Rows, events: Iterable[Json]) -> Rows:
    """Fill in the loader of rows from spawned workers, which do not know whose they are."""
    if np.all(rows["loader"]):
        return rows
    epochs = (event for event in events if event.get("event") == "epoch")
    owners: dict[int, int] = {}
    for event in epochs:
        loader, workers = event.get("loader"), event.get("workers")
        if isinstance(loader, int) and isinstance(workers, list):
            owners.update((pid, loader) for pid in workers if isinstance(pid, int))
    unknown = rows["loader"] == 0
    rows["loader"][unknown] = [owners.get(int(pid), 0) % 65536 for pid in rows["pid"][unknown]]
    return rows
