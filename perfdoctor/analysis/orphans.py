"""Gradients that nobody uses: OrphanFacts."""

from __future__ import annotations

from dataclasses import dataclass

from perfdoctor.analysis.records import location, number, whole
from perfdoctor.analysis.source import Sources
from perfdoctor.model import Location
from perfdoctor.recorded import RankRecords


@dataclass(frozen=True)
class OrphanFacts:
    """Parameters that backward reaches, no optimizer has, and nothing changes."""

    tensors: int
    elements: int
    of_elements: float  # share of all elements that get a gradient
    needless: float  # share of backward's nodes from which gradients go to such parameters only
    at: Location | None  # the line that built the optimizer


def orphan_facts(records: RankRecords, sources: Sources) -> OrphanFacts | None:
    """What the last look saw, or None where every gradient has its use."""
    looks = records.of("orphans")
    last = looks[-1] if looks else {}
    if not whole(last.get("tensors")):
        return None
    built = [location(event.get("built")) or location(event.get("at")) for event in records.of("optimizer")]
    return OrphanFacts(
        tensors=whole(last.get("tensors")) or 0,
        elements=whole(last.get("elements")) or 0,
        of_elements=min(1.0, number(last.get("elements")) / max(1.0, number(last.get("of_elements")))),
        needless=min(1.0, number(last.get("needless")) / max(1.0, number(last.get("nodes")))),
        at=sources.shown(built[0]) if built else None,
    )
