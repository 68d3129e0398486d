"""What held the memory when a script ended for want of it, and what would have fitted."""

from __future__ import annotations

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.model.note import Note


@dataclass(frozen=True)
class HeldMemory:
    """One holder of memory."""

    name: str
    held_bytes: int


@dataclass(frozen=True)
class OutOfMemory:
    """The end of a run that found no memory left."""

    device: str | None  # "cpu", "cuda:0"; None: a worker of the script's found none left
    step: int  # in which it happened, counted from 1
    asked_bytes: int | None  # by the allocation that failed
    total_bytes: int | None  # of the device, or what the process was allowed
    held: tuple[HeldMemory, ...]
    at: Location | None
    remedies: tuple[Note, ...]
