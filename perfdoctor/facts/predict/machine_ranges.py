"""Ranges that the trials of the run's machine ask for, as they were left beside it: MachineRanges."""

from __future__ import annotations

from collections.abc import Mapping

from perfdoctor.facts.decode import as_count, number
from perfdoctor.facts.registry import fact
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import RunFacts
from perfdoctor.model.widening import MachineRanges, Widening
from perfdoctor.runs.types import RunRecords


@fact
def machine_ranges(records: RunRecords, run: RunFacts) -> MachineRanges:
    """What was fitted for the device of the run; nothing where the machine had too few trials."""
    fits = (records.ranges or {}).get("fitted")
    told = fits.get(run.device) if isinstance(fits, Mapping) else None
    by_kind = {
        kind: fitted
        for kind in Bottleneck
        if isinstance(told, Mapping) and (fitted := _widening(told.get(kind.value))) is not None
    }
    return MachineRanges(run.device, by_kind)


def _widening(told: object) -> Widening | None:
    """What a file says of one kind, or None where it says too little."""
    if not isinstance(told, Mapping):
        return None
    fitted = Widening(
        as_count(told.get("cases")) or 0, *(number(told.get(end)) for end in ("below", "above"))
    )
    return fitted if fitted.is_known and fitted.below >= 0 and fitted.above >= 0 else None
