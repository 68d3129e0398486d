"""Tells of devices that were lost while the script ran, and of those that it left idle: notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from perfdoctor.model.measured import RunFacts
from perfdoctor.model.note import Note
from perfdoctor.runs.types import RunRecords

LOST = "the device is lost"  # as the sampler says it
WITHOUT_DEVICES = "+cpu"  # ends the version of a torch that is built for CPUs only


def notes(records: RunRecords) -> Iterator[Note]:
    """A note on the devices of which the last sample says that they are lost."""
    lost = [index for index, rows in sorted(records.gpus.items()) if rows and _is_lost(rows[-1])]
    if lost:
        yield Note("device-lost-at", {"devices": ", ".join(map(str, lost))})


def unused(records: RunRecords, run: RunFacts) -> Iterator[Note]:
    """A note on accelerators that the run could see while it trained on the CPU, and on torch's build."""
    names = [
        str(rows[-1]["name"]) for _, rows in sorted(records.gpus.items()) if rows and rows[-1].get("name")
    ]
    if run.device != "cpu" or not names:
        return
    devices, torch = ", ".join(dict.fromkeys(names)), run.torch or ""
    if torch.endswith(WITHOUT_DEVICES):
        yield Note("unused-device-build", {"devices": devices, "torch": torch})
    else:
        yield Note("unused-device", {"devices": devices})


def _is_lost(row: Mapping[str, object]) -> bool:
    reasons = row.get("reasons")
    return isinstance(reasons, Mapping) and LOST in reasons.values()
