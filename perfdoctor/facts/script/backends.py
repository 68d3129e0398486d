"""Tells how torch's device libraries were set while training: BackendFacts."""

from __future__ import annotations

from dataclasses import dataclass

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.model.measured import Location, RunFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.script import SettingsEvent

NOT_SEEN = Missing("the settings of the device's libraries were not recorded")


@dataclass(frozen=True)
class BackendFacts:
    """What was set when it was last read; None where it could not be read."""

    cudnn_benchmark: bool | None
    at: Location | None  # the user's line that was running: settings have no line of their own


@fact
def backend_facts(rank: RankRecords, run: RunFacts) -> BackendFacts | Missing | None:
    """The settings, or None where no device trained."""
    if not run.on_device:
        return None
    settings = [event for event in rank.of(SettingsEvent) if event.cudnn_benchmark is not None]
    if not settings:
        return NOT_SEEN
    return BackendFacts(settings[-1].cudnn_benchmark, location(settings[-1].at))
