"""Finds calls in the training loop that have arguments and results of earlier ones: RepeatedFunctionFacts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from perfdoctor.facts.data.compared_calls import AGAIN, Calls, ComparedCalls, at_frame, compared
from perfdoctor.facts.host.stack_costs import StackCost, StackCosts, charged_most
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.facts.user_source.update_dependence import only_gives
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.wire.events.loop_calls import LoopCallsEvent


@dataclass(frozen=True)
class RepeatedFunction:
    """A line between the phases of training that calls a function again and again, with the same result."""

    at: Location
    name: str
    share: float  # of the step: what is spent in calls that repeat an earlier one
    samples: int
    bottleneck: Bottleneck
    seen: int  # calls that were compared
    arguments: int  # different ones that they had
    in_all: int | None = None  # how many there are, where few came again


@dataclass(frozen=True)
class RepeatedFunctionFacts:
    """Such lines, the costliest first; each stack counts for the outermost of them."""

    calls: tuple[RepeatedFunction, ...] = ()


@fact
def repeated_function_facts(
    looks: list[LoopCallsEvent], step: StepFacts, costs: StackCosts | Missing, sources: Sources
) -> RepeatedFunctionFacts | Missing | None:
    """Of functions whose source shows that they do no more than give something; None where there are none."""
    last = {event.pid: event for event in looks}.values()
    calls = {
        key: one
        for key, one in compared((event.steps, event.calls) for event in last).items()
        if one.again(step.count)[0] >= AGAIN and _only_gives(one, sources)
    }
    if not calls:
        return None
    if isinstance(costs, Missing):
        return costs
    below: dict[Calls, list[StackCost]] = defaultdict(list)
    for cost in costs.costs:
        key = _outermost(cost, calls)
        if key is not None:
            below[key].append(cost)
    if not step.mean_s:
        return None
    found = [_repeated(calls[key], step, below[key], sources) for key in below]
    return RepeatedFunctionFacts(tuple(sorted(found, key=lambda call: -call.share)))


def _outermost(cost: StackCost, calls: Iterable[Calls]) -> Calls | None:
    """The calls that a stack is in. Only what lies between the phases was looked at."""
    if cost.phase is not Phase.OTHER:
        return None
    frames = (*cost.path, *cost.beyond)
    return next((key for index in range(len(frames)) if (key := at_frame(frames, index)) in calls), None)


def _repeated(
    calls: ComparedCalls, step: StepFacts, below: list[StackCost], sources: Sources
) -> RepeatedFunction:
    again, in_all = calls.again(step.count)
    return RepeatedFunction(
        at=sources.shown(calls.at) or calls.at,
        name=calls.name,
        share=min(1.0, again * sum(cost.seconds for cost in below) / step.mean_s),
        samples=sum(cost.samples for cost in below),
        bottleneck=charged_most(below),
        seen=calls.compared,
        arguments=calls.arguments,
        in_all=in_all,
    )


def _only_gives(calls: ComparedCalls, sources: Sources) -> bool:
    """Whether a function is the user's, and changes nothing that others see, as the start of a game does."""
    function = sources.file(calls.file).beginning(calls.line, calls.function)
    return function is not None and only_gives(sources, calls.file, function)
