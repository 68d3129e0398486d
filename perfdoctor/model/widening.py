"""How much wider than the step model gives them ranges of predicted gains are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.dataclass import dataclass

FEWEST = 9  # cases; of fewer, the ceil(0.9 (n + 1))-th smallest does not exist


@dataclass(frozen=True)
class Widening:
    """By how much the ranges of a kind of change are widened, on a scale of log(speedup)."""

    cases: int  # measured ones that it rests on
    below: float
    above: float

    @property
    def is_known(self) -> bool:
        """Whether enough changes of this kind were measured."""
        return self.cases >= FEWEST


@dataclass(frozen=True)
class MachineRanges:
    """What a run was watched on, and what the trials of that machine asked of settings when the run ended."""

    device: str  # "cpu", or the accelerator's name
    by_kind: Mapping[Bottleneck, Widening] = field(default_factory=dict)
