"""Counts gradients that nobody uses: UnusedGradientFacts."""

from __future__ import annotations

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.script import OptimizerEvent, RootModuleEvent
from perfdoctor.wire.events.training import UnusedGradientsEvent, UnusedModuleEvent

ALIKE = 0.02  # a part of a model need not be reached by backward, as a head that only texts go through


@dataclass(frozen=True)
class UnusedGradientFacts:
    """Parameters that backward reaches, no optimizer has or moves, and nothing changes."""

    tensors: int
    elements: int
    of_elements: float  # share of all elements that get a gradient
    needless: float  # share of backward's nodes from which gradients go to such parameters only
    at: Location | None  # the line that constructs the optimizer, of several the last one
    called_at: Location | None = None  # that calls a model of its own which has just these parameters
    # Of a part of a model that has just these parameters: what constructs it, and what calls it.
    part_at: tuple[Location, ...] = ()
    at_rest: int = 0  # of the elements, those that an optimizer has at a learning rate of zero
    # Share of the elements, tables of look-ups left out, that only such nodes compute with. None: not known.
    apart: float | None = None


@fact
def unused_gradient_facts(rank: RankRecords, sources: Sources) -> UnusedGradientFacts | Missing | None:
    """What the last sample shows, or None where every gradient has its use."""
    sampled = rank.of(UnusedGradientsEvent)
    last = sampled[-1] if sampled else None
    if last is not None and len(sampled) == 1 and not last.tensors:
        return Missing("after so few backward passes it is not known which gradients are used")
    if last is None or not last.tensors:
        return None
    constructed_at = [location(event.built) or location(event.at) for event in rank.of(OptimizerEvent)]
    called_at = sources.shown(_called_at(rank, last.elements))
    return UnusedGradientFacts(
        tensors=last.tensors,
        elements=last.elements,
        of_elements=min(1.0, last.elements / max(1.0, last.of_elements)),
        needless=min(1.0, last.needless / max(1.0, last.nodes)),
        at=sources.shown(constructed_at[-1]) if constructed_at else None,
        at_rest=last.at_rest,
        apart=min(1.0, last.apart / last.weights) if last.weights else None,
        called_at=called_at,
        part_at=_part_at(rank, last.elements, sources) if called_at is None else (),
    )


def _called_at(rank: RankRecords, elements: int) -> Location | None:
    """Where a model of just these parameters is called; None of a part of one, or where in doubt.

    Where no sampled step shows that, where the only model of so many parameters was called first, which may
    have been to train it.
    """
    roots = rank.of(RootModuleEvent)
    alike = [root for root in roots if abs(root.parameters - elements) <= ALIKE * elements]
    if not alike or len(roots) < 2:
        return None
    called = _calls(rank, elements)
    at = location(called[-1].at) if called else None
    if at is not None:
        return at
    return location(alike[0].at) if len(alike) == 1 else None


def _part_at(rank: RankRecords, elements: int, sources: Sources) -> tuple[Location, ...]:
    """Where to freeze a part of a model; what a function for all kinds of parts returns comes last."""
    called = _calls(rank, elements)
    if not called or called[-1].built is None:
        return ()
    built, at = sources.shown(location(called[-1].built)), sources.shown(location(called[-1].at))
    by_factory = built is not None and (built.statement or "").startswith("return ")
    places = (at, built) if by_factory else (built, at)
    return tuple(dict.fromkeys(place for place in places if place is not None))


def _calls(rank: RankRecords, elements: int) -> list[UnusedModuleEvent]:
    """The calls of a module that has just so many parameters that count."""
    return [event for event in rank.of(UnusedModuleEvent) if event.elements == elements]
