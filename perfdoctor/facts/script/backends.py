"""Tells how torch's device libraries were set while training: BackendFacts, Tf32Settings."""

from __future__ import annotations

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, RunFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.script import SettingsEvent

NOT_SEEN = Missing("the settings of the device's libraries were not recorded")
FULL = "highest"  # torch's word for float32 products without TF32


@dataclass(frozen=True)
class BackendFacts:
    """What was set when it was last read; None where it could not be read."""

    cudnn_benchmark: bool | None
    at: Location | None  # the user's line that was running: settings have no line of their own
    cudnn_version: int | None = None  # the first of its numbers


@dataclass(frozen=True)
class Tf32Settings:
    """Whether float32 operations may use TF32; None where that could not be read, as of a trace."""

    products: bool | None = None
    convolutions: bool | None = None


@fact
def tf32_settings(rank: RankRecords | Missing | None) -> Tf32Settings:
    """The settings when they were last read."""
    events = rank.of(SettingsEvent) if isinstance(rank, RankRecords) else []
    read = [event for event in events if event.matmul_precision is not None]
    if not read:
        return Tf32Settings()
    return Tf32Settings(read[-1].matmul_precision != FULL, read[-1].cudnn_tf32)


@fact
def backend_facts(rank: RankRecords, run: RunFacts) -> BackendFacts | Missing | None:
    """The settings, or None where no device trained."""
    if not run.on_device:
        return None
    settings = [event for event in rank.of(SettingsEvent) if event.cudnn_benchmark is not None]
    if not settings:
        return NOT_SEEN
    last = settings[-1]
    return BackendFacts(last.cudnn_benchmark, location(last.at), last.cudnn_version)
