"""Tells of devices that were lost while the script ran: notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from perfdoctor.model.note import Note
from perfdoctor.runs.types import RunRecords

LOST = "the device is lost"  # as the sampler says it


def notes(records: RunRecords) -> Iterator[Note]:
    """A note on the devices of which the last sample says that they are lost."""
    lost = [index for index, rows in sorted(records.gpus.items()) if rows and _is_lost(rows[-1])]
    if lost:
        yield Note("device-lost-at", {"devices": ", ".join(map(str, lost))})


def _is_lost(row: Mapping[str, object]) -> bool:
    reasons = row.get("reasons")
    return isinstance(reasons, Mapping) and LOST in reasons.values()
