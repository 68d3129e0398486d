"""Lines that wait for a device: whatever they do else, most of their time is that of the work before them."""

from __future__ import annotations

import re

from perfdoctor.model.measured import LineCost, Location, RunFacts

READS = re.compile(r"\.(?:item|cpu|tolist|numpy|nonzero|any|all)\(|\b(?:float|int|bool)\(")


def line_waits(run: RunFacts, line: LineCost) -> bool:
    """Whether a line reads a tensor of a device, be it in the function that it hands the tensor to."""
    return waits_for_device(run, line.at) or (run.on_device and line.reads_tensor)


def waits_for_device(run: RunFacts, *places: Location | None) -> bool:
    """Whether one of these lines reads a tensor of a device: `device-sync-in-loop` says what that costs."""
    return run.on_device and any(at is not None and READS.search(at.statement or "") for at in places)
