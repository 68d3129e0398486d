"""What the records of a job come to, once all of its ranks have been read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class JobRecords:
    """What is known of the ranks of a job together, beside what each of them recorded."""

    world: int
    missing: tuple[int, ...] = ()  # ranks that left no record
    exits: Mapping[int, str] = field(default_factory=dict)  # of ranks that failed: "killed by signal 9"
    hangs: Mapping[int, str] = field(default_factory=dict)  # where living ranks were when no step ended
    attempt: int = 0  # restarts by the launcher before this one
    notes: tuple[str, ...] = ()
