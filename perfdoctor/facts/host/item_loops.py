"""Finds loops that feed items to modules one by one, where one batch could hold them: ItemLoopFacts."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from perfdoctor.facts.decode import location
from perfdoctor.facts.device.charged import attributed_shares
from perfdoctor.facts.device.device import DeviceFacts
from perfdoctor.facts.host.stack_costs import StackCost, StackCosts
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Frame
from perfdoctor.facts.user_source.item_turns import ItemTurns
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.change import Estimate
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.module_turns import ModuleTurnsEvent

MANY = 16  # turns: scales, heads and micro-batches are fewer
# Products that a core makes in a second of small batches, with the element by element work that goes with
# them: at least, likely, at most. Of six pairs of scripts, 2.3 to 7 thousand million were measured.
PRODUCTS_PER_S = (2e9, 5e9, 20e9)
# What a call of a module takes besides, with the small operations that go with it: at least, likely, at most.
# 20 to 100 microseconds in the same scripts. Other work on the machine makes turns longer, but not this.
CALL_S = (20e-6, 50e-6, 100e-6)
# A loop around these is over batches, whichever function trains on them.
OF_BATCHES = (Phase.DATA_WAIT, Phase.BACKWARD, Phase.GRAD_SYNC, Phase.OPTIMIZER)
TURNS_OF_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


@dataclass(frozen=True)
class ItemLoop:
    """One such loop: what its turns take outside of backward, as a share of the step."""

    at: Location
    turns: int  # a step
    share: float
    in_forward: float  # of it, what the timers charge to forward
    samples: int
    names: tuple[str, ...]  # of the modules that it calls
    kept: Estimate  # the part of it that the products themselves take; low is the least


@dataclass(frozen=True)
class ItemLoopFacts:
    """The loops of a step, costliest first; none lies in another."""

    loops: tuple[ItemLoop, ...]
    waited: float | None = None  # share of the step in which a device waits for its host; None: not known

    @property
    def share(self) -> float:
        """What they take together."""
        return sum(loop.share for loop in self.loops)

    @property
    def in_forward(self) -> float:
        """The part of it that the timers charge to forward."""
        return sum(loop.in_forward for loop in self.loops)

    @property
    def kept(self) -> Estimate:
        """The part of them all that the products take."""
        each = [(loop.kept, loop.share / self.share) for loop in self.loops]
        return Estimate(
            sum(kept.low * part for kept, part in each),
            sum(kept.likely * part for kept, part in each),
            sum(kept.high * part for kept, part in each),
        )


@fact
def item_loop_facts(
    step: StepFacts,
    sources: Sources,
    costs: StackCosts | Missing | None,
    rank: RankRecords,
    device: DeviceFacts | Missing | None = None,
) -> ItemLoopFacts | None:
    """Such loops, or None where there are none."""
    told = rank.of(ModuleTurnsEvent)
    events = [event for event in told if event.look == max(one.look or 0 for one in told)]
    if not events or not isinstance(costs, StackCosts) or step.mean_s <= 0:
        return None
    waited = attributed_shares(device)[Bottleneck.HOST] if isinstance(device, DeviceFacts) else None
    if waited is None and not all(event.host for event in events):
        return None  # what its host does may be hidden behind what the device does
    training = {
        (frame.file, frame.line)
        for cost in costs.costs
        if cost.phase in OF_BATCHES
        for frame in (*cost.callers, *cost.path)
    }
    found: dict[tuple[str, int], tuple[ItemTurns, list[ModuleTurnsEvent]]] = {}
    for event in events:
        turns = _outermost(event, sources, training)
        if turns is not None:
            found.setdefault((turns.file, turns.node.lineno), (turns, []))[1].append(event)
    loops = [
        loop
        for turns, through in found.values()
        if (loop := _loop(turns, through, costs.costs, sources, step.mean_s)) is not None
    ]
    if not loops:
        return None
    return ItemLoopFacts(tuple(sorted(loops, key=lambda loop: -loop.share)), waited)


def _outermost(event: ModuleTurnsEvent, sources: Sources, training: set[tuple[str, int]]) -> ItemTurns | None:
    """The outermost such loop on the way to a module."""
    places = _places(event)
    for index, at in reversed(list(enumerate(places))):
        for turns in ItemTurns.around(sources, at.file, at.line):
            trains = any(turns.covers(*line) or turns.begins(*line) for line in training)
            if not trains and not any(_keeps(sources, inner) for inner in places[:index]):
                return turns
    return None


def _places(event: ModuleTurnsEvent) -> list[Location]:
    """The lines on the way to a module, innermost first; comprehensions have frames of their own."""
    places = [at for line in event.lines if (at := location(line)) is not None]
    return [at for at in places if at.function not in TURNS_OF_COMPREHENSIONS]


def _keeps(sources: Sources, at: Location) -> bool:
    """Whether the function around a line sets attributes, which its next call may need."""
    scope = sources.file(at.file).scope(at.line)
    return scope is None or any(
        isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) for part in ast.walk(scope)
    )


def _loop(
    turns: ItemTurns,
    through: Sequence[ModuleTurnsEvent],
    costs: Iterable[StackCost],
    sources: Sources,
    mean_s: float,
) -> ItemLoop | None:
    """What one loop takes; None where its own turns are few, or cannot be told from those of loops inside."""
    direct = [event.turns for event in through if _is_direct(turns, event, sources)]
    if not direct or max(direct) < MANY:
        return None
    below = [cost for cost in costs if _is_model(cost) and any(turns.holds(frame) for frame in cost.path)]
    seconds = sum(cost.seconds for cost in below)
    if seconds <= 0:
        return None
    products = sum(event.products for event in through) if all(event.host for event in through) else 0
    calls = sum(event.calls for event in through)
    most, likely, least = (
        _part(products / rate, seconds, calls * call_s)
        for rate, call_s in zip(PRODUCTS_PER_S, CALL_S, strict=True)
    )
    forward_s = sum(cost.seconds for cost in below if cost.phase is Phase.FORWARD)
    return ItemLoop(
        sources.at(turns.file, turns.node.lineno, _function(below, turns)),
        turns=max(direct),
        share=seconds / mean_s,
        in_forward=forward_s / mean_s,
        samples=sum(cost.samples for cost in below),
        names=tuple(sorted({name for event in through for name in event.names})),
        kept=Estimate(least, likely, most),
    )


def _part(computing_s: float, loop_s: float, calling_s: float) -> float:
    """The part of a loop that its products take: of its own time, and beside what calls usually take."""
    return min(1.0, max(computing_s / loop_s, computing_s / max(computing_s + calling_s, 1e-12)))


def _is_model(cost: StackCost) -> bool:
    return cost.phase is Phase.FORWARD or (cost.phase is Phase.OTHER and cost.kind == "compute")


def _is_direct(turns: ItemTurns, event: ModuleTurnsEvent, sources: Sources) -> bool:
    """Whether each turn of the loop makes one call of these modules: there is no loop in between."""
    places = _places(event)
    own = next((index for index, at in enumerate(places) if turns.covers(at.file, at.line)), None)
    if own is None or not turns.is_innermost(places[own].line):
        return False
    return not any(_in_turns(sources, at) for at in places[:own])


def _in_turns(sources: Sources, at: Location) -> bool:
    listing = sources.file(at.file)
    return any(True for _ in listing.loops(at.line)) or listing.comprehension(at.line) is not None


def _function(below: Iterable[StackCost], turns: ItemTurns) -> str | None:
    frames: Iterator[Frame] = (frame for cost in below for frame in cost.path if turns.holds(frame))
    return next((frame.name for frame in frames if frame.name not in TURNS_OF_COMPREHENSIONS), None)
