"""Counts gradients that nobody uses: UnusedGradientFacts."""

from __future__ import annotations

from dataclasses import dataclass

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Location
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.script import OptimizerEvent
from perfdoctor.wire.events.training import UnusedGradientsEvent


@dataclass(frozen=True)
class UnusedGradientFacts:
    """Parameters that backward reaches, no optimizer has, and nothing changes."""

    tensors: int
    elements: int
    of_elements: float  # share of all elements that get a gradient
    needless: float  # share of backward's nodes from which gradients go to such parameters only
    at: Location | None  # the line that constructs the optimizer


@fact
def unused_gradient_facts(rank: RankRecords, sources: Sources) -> UnusedGradientFacts | None:
    """What the last sample shows, or None where every gradient has its use."""
    sampled = rank.of(UnusedGradientsEvent)
    last = sampled[-1] if sampled else None
    if last is None or not last.tensors:
        return None
    constructed_at = [location(event.built) or location(event.at) for event in rank.of(OptimizerEvent)]
    return UnusedGradientFacts(
        tensors=last.tensors,
        elements=last.elements,
        of_elements=min(1.0, last.elements / max(1.0, last.of_elements)),
        needless=min(1.0, last.needless / max(1.0, last.nodes)),
        at=sources.shown(constructed_at[0]) if constructed_at else None,
    )
