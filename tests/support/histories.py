"""Tried changes made up for tests: one line each, what differs said."""

from __future__ import annotations

from typing import Any

from perfdoctor.model.concluded import Bottleneck, Gain
from perfdoctor.model.history import TriedChange
from perfdoctor.model.trial import Outcome

MODELLED = Gain(1.2, 1.5, 1.8)


def tried(number: int = 0, measured: float = 1.5, **fields: Any) -> TriedChange:
    """A change of script `number`, an hour after that of the one before, with this speedup."""
    values = {
        "epoch_s": 1_700_000_000.0 + 3600 * number,
        "script": f"train{number}",
        "script_id": f"id{number}",
        "tweaks": ("--workers 4",),
        "acts_on": (Bottleneck.DATA,),
        "device": "cpu",
        "modelled": MODELLED,
        "predicted": Gain(1.1, 1.5, 2.7),
        "measured": Gain(0.9 * measured, measured, 1.1 * measured),
        "outcome": Outcome.FASTER,
    }
    return TriedChange(**(values | fields))
