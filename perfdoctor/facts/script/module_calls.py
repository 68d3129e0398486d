"""Describes the calls of modules in sampled steps: repeated calls, needless biases, number types."""

from __future__ import annotations

import ast
from statistics import median

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.parse import Sources, calls, statements
from perfdoctor.facts.user_source.update_dependence import Dependence, of_line
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.script import SettingsEvent
from perfdoctor.wire.events.training import (
    PARAMETRIZATION,
    BiasedLayerEvent,
    ModuleCallsEvent,
    RepeatedCallEvent,
)

FEW = 3  # fewer do not tell what every step does


@dataclass(frozen=True)
class Repeat:
    """Two places that call one module with the same arguments, the second in vain; they may be one."""

    module: str
    first: Location
    again: Location
    share: float  # of the sampled steps, the time of the second call
    seen: float  # share of the sampled steps that show it
    recording: bool  # both recorded gradients
    by_chance: bool = False  # they differ, as by dropout, and backward goes through the first only
    count: float = 1.0  # of calls in vain, in a sampled step that shows them
    times: float = 2.0  # that the module is called with one input, the first of them included
    walked: bool = False  # backward goes through all of these calls
    projections: bool = False  # only those of attention's keys and values are repeated

    @property
    def parametrizes(self) -> bool:
        """Whether the module makes a parameter out of others, each time that it is asked for."""
        return self.module == PARAMETRIZATION


@dataclass(frozen=True)
class RepeatedCallFacts:
    """What is computed twice in a step, costliest first; empty where nothing is."""

    repeats: tuple[Repeat, ...]
    samples: int  # steps


@dataclass(frozen=True)
class BiasFacts:
    """Convolutions whose bias the batch normalisation behind them takes out again."""

    layers: tuple[tuple[str, Location | None], ...]  # (path in the model, the line that constructs it)
    count: float  # of such calls in a step
    elements: float  # of their outputs, a step
    device: str


@dataclass(frozen=True)
class PrecisionFacts:
    """How autocast and loss scaling act while training."""

    device: str
    autocast: str | None  # its number type in the forward pass
    in_backward: str | None  # its number type where backward begins
    scaled: bool  # a GradScaler was used
    at: Location | None  # the line that begins backward
    autocast_at: Location | None = None  # the `with` around that line


def settled(rank: RankRecords) -> list[ModuleCallsEvent]:
    """The sampled steps but for the first, which lies in the warm-up, where there are enough of them."""
    samples = rank.of(ModuleCallsEvent)
    return samples[1:] if len(samples) > FEW else samples


@fact
def repeated_call_facts(rank: RankRecords, sources: Sources) -> RepeatedCallFacts | None:
    """Repeated calls, or None with too few sampled steps to tell."""
    samples = settled(rank)
    if len(samples) < FEW:
        return None
    numbers = {sample.look for sample in samples}
    seconds = sum(sample.seconds for sample in samples)
    pairs: dict[tuple[Location, Location, bool, bool], list[RepeatedCallEvent]] = {}
    for event in rank.of(RepeatedCallEvent):
        first, again = location(event.first), location(event.at)
        if first is not None and again is not None and event.look in numbers:
            pairs.setdefault((first, again, event.by_chance, event.projections), []).append(event)
    repeats = [
        Repeat(
            module=events[0].module or "module",
            first=first,
            again=again,
            share=min(1.0, sum(event.seconds for event in events) / seconds) if seconds > 0 else 0.0,
            seen=min(1.0, len(events) / len(samples)),
            recording=all(event.recording for event in events),
            by_chance=by_chance,
            count=median(event.count for event in events),
            times=median(map(_times, events)),
            walked=all(event.walked for event in events),
            projections=projections,
        )
        for (first, again, by_chance, projections), events in pairs.items()
        if not (by_chance and _feeds_update(events[0], sources))
    ]
    return RepeatedCallFacts(tuple(sorted(repeats, key=lambda one: -one.share)), len(samples))


def _times(event: RepeatedCallEvent) -> float:
    """How often a module was called with one input; recordings of older versions do not tell."""
    return 1 + event.count / event.inputs if event.inputs else 2.0


def _feeds_update(event: RepeatedCallEvent, sources: Sources) -> bool:
    """Whether the update needs, or may need, the values of a pass that backward does not go through."""
    for at in filter(None, map(location, event.lines)):
        needed = of_line(sources, at)
        if needed is Dependence.UPDATE or (needed is Dependence.UNKNOWN and _may_be_given_on(sources, at)):
            return True
    return False


def _may_be_given_on(sources: Sources, at: Location) -> bool:
    """Whether the function around a line gives something back, as a loss, to what trains by it."""
    listing = sources.file(at.file)
    scope = listing.scope(at.line)
    if not isinstance(scope, ast.FunctionDef) or isinstance(listing.statement(at.line), ast.Expr):
        return False
    own = list(statements(scope.body))
    trains = any(name == "backward" for node in own for _, name in calls(node))
    return not trains and any(isinstance(node, ast.Return) and node.value is not None for node in own)


@fact
def bias_facts(rank: RankRecords) -> BiasFacts | None:
    """Biases before batch normalisation, or None where there are none."""
    layers = [((event.path or ""), location(event.at)) for event in rank.of(BiasedLayerEvent)]
    samples = [sample for sample in settled(rank) if sample.biased > 0]
    if not layers or not samples:
        return None
    return BiasFacts(
        layers=tuple(dict(reversed(layers)).items())[::-1],
        count=median(sample.biased for sample in samples),
        elements=median(sample.biased_elements for sample in samples),
        device=_device(rank),
    )


@fact
def precision_facts(rank: RankRecords, sources: Sources) -> PrecisionFacts | None:
    """Autocast and scaling as last seen, or None where no backward was sampled."""
    settings = rank.of(SettingsEvent)
    if not settings:
        return None
    last = settings[-1]
    types = [sample.autocast for sample in settled(rank)]
    return PrecisionFacts(
        device=_device(rank),
        autocast=next((name for name in reversed(types) if isinstance(name, str)), None),
        in_backward=last.autocast_in_backward,
        scaled=any(event.scaled for event in settings),
        at=location(last.at),
        autocast_at=_with_autocast(location(last.at), sources),
    )


def _with_autocast(at: Location | None, sources: Sources) -> Location | None:
    """The `with ...autocast...` around a line, or None."""
    scope = sources.file(at.file).scope(at.line) if at is not None else None
    if at is None or scope is None:
        return None
    for node in statements(scope.body):
        if not isinstance(node, ast.With) or not node.lineno < at.line <= (node.end_lineno or 0):
            continue
        if any("autocast" in ast.unparse(item.context_expr) for item in node.items):
            return sources.at(at.file, node.lineno, at.function)
    return None


def _device(rank: RankRecords) -> str:
    settings = rank.of(SettingsEvent)
    return (settings[-1].device if settings else None) or "cpu"
