"""Settings of torch's device libraries, as they were while training."""

from __future__ import annotations

from dataclasses import dataclass

from perfdoctor.analysis.records import location
from perfdoctor.model import Location
from perfdoctor.recorded import RankRecords

NOT_SEEN = "the settings of the device's libraries were not recorded"


@dataclass(frozen=True)
class BackendFacts:
    """What was set when it was last looked at; None where it could not be asked."""

    cudnn_benchmark: bool | None
    at: Location | None  # the user's line that was running: settings have no line of their own


def backend_facts(records: RankRecords) -> BackendFacts | str:
    """The settings, or why they are not known."""
    found = [event for event in records.of("settings") if "cudnn_benchmark" in event]
    if not found:
        return NOT_SEEN
    benchmark = found[-1]["cudnn_benchmark"]
    return BackendFacts(benchmark if isinstance(benchmark, bool) else None, location(found[-1].get("at")))
