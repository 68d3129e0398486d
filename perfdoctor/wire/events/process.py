"""Events of a process as a whole: its start, its end, what watching costs in it, what was changed in it."""

from __future__ import annotations

from typing import Any

from . import Event, Line, Signed


class BootEvent(Event, name="boot"):
    """A process imported torch."""

    python: str | None
    torch: str | None
    executable: str | None
    prefix: str | None
    ppid: int
    begin_ns: int | None  # when its interpreter started
    threads: int  # torch's intra-op threads at that moment
    threads_env: dict[str, Any]  # variables that set them
    job: dict[str, Any]  # what its launcher told it: rank, world, attempt, ...


class CostEvent(Event, name="cost"):
    """What the probe's own moves cost here, in nanoseconds."""

    switch_ns: float  # a phase entered and left
    call_ns: float  # a call of a module inside another
    row_ns: float


class EndEvent(Event, name="end"):
    """The process ended by itself."""

    broken: dict[str, str]  # patches that turned themselves off, and why


class RankFailedEvent(Event, name="rank_failed"):
    """A launcher noticed the end of a rank that it had started."""

    local_rank: int
    pid: int  # of the rank
    exitcode: Signed
    signal: int | None


class TweakEvent(Event, name="tweak"):
    """What a tweak changed, left alone, or left to the script again."""

    tweak: str
    outcome: str  # applied | left_alone | withdrawn | may_differ
    what: str | None = None  # of one withdrawn: None where the tweak ran into an error
    at: Line | None = None
    was: Any = None
    now: Any = None
    because: str | None = None


class TrialEndEvent(Event, name="trial_end"):
    """The measured part of an execution of a trial is over."""

    ended_early: bool
    peak: dict[str, Any]  # host_bytes, device_bytes
    broken: dict[str, str]
