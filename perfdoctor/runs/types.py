"""What was read of a run: the records of one rank, of all ranks of a directory, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import overload

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.note import Remark
from perfdoctor.runs.directory import Json
from perfdoctor.runs.events import AnyEvent, decoded
from perfdoctor.runs.raw import Rows, Stack


@dataclass(frozen=True)
class RankRecords:
    """What one rank's process and its loader workers recorded, and where it ran."""

    rank: int
    steps: Rows | None
    loader: Rows | None
    events: Sequence[Json]
    stacks: tuple[Stack, ...] = ()
    stacks_source: str | None = None
    stacks_rate_hz: float | None = None
    collectives: Rows | None = None
    now: Json | None = None  # the collective that it was in when the record ended
    pid: int | None = None
    node: str = ""  # the name of its host
    job: Json = field(default_factory=dict)  # what its launcher told it: rank, world, attempt, ...
    boot: Json = field(default_factory=dict)
    run: Json = field(default_factory=dict)  # run.json of its folder
    host: Sequence[Json] = ()  # samples of its host

    @overload
    def of(self, kind: str) -> list[Json]: ...

    @overload
    def of(self, kind: type[AnyEvent]) -> list[AnyEvent]: ...

    def of(self, kind: str | type[AnyEvent]) -> list[Json] | list[AnyEvent]:
        """The events of one kind, in order: typed, or by name as the JSON lines that they are."""
        if isinstance(kind, str):
            return [entry for entry in self.events if entry.get("event") == kind]
        return decoded(kind, self.events)


@dataclass(frozen=True)
class RunRecords:
    """Everything a run directory holds, as read."""

    path: Path
    run: Json
    ranks: Mapping[int, RankRecords]
    boots: tuple[Json, ...] = ()
    host: tuple[Json, ...] = ()
    gpus: Mapping[int, tuple[Json, ...]] = field(default_factory=dict)
    problems: tuple[Remark, ...] = ()
    sharing: Json | None = None  # of perfdoctor.contention
    failures: tuple[Json, ...] = ()  # ranks whose end the launcher noticed
    ranges: Json | None = None  # of predicted gains, by the machine's own trials


@dataclass(frozen=True)
class JobRecords:
    """What is known of the ranks of a job together, beside what each of them recorded."""

    world: int
    missing: tuple[int, ...] = ()  # ranks that left no record
    exits: Mapping[int, str] = field(default_factory=dict)  # of ranks that failed: "killed by signal 9"
    hangs: Mapping[int, str] = field(default_factory=dict)  # where living ranks were when no step ended
    attempt: int = 0  # restarts by the launcher before this one
    notes: tuple[Remark, ...] = ()
