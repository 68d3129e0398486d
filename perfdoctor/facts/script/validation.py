"""Measures how often the run validates, and what a validation takes: ValidationFacts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile

import numpy as np

from perfdoctor.facts.data.validation_loader import ValidationLoaderFacts
from perfdoctor.facts.decode import location
from perfdoctor.facts.predict.step_model import StepModel
from perfdoctor.facts.predict.worker_count import more_for_validation
from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.repeated_prefixes import RepeatedPrefixesFacts
from perfdoctor.facts.steps.boundaries import Steps
from perfdoctor.facts.user_source.intervals import Intervals
from perfdoctor.facts.user_source.parse import Sources, calls, covers, statements
from perfdoctor.facts.user_source.update_dependence import Dependence, of_line
from perfdoctor.facts.user_source.value_flow import ValueFlow
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.interval import OF_STEPS, Interval
from perfdoctor.model.measured import CpuFacts, LoaderFacts, Location, Phase, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.training import EvalEvent


@dataclass(frozen=True)
class ValidationFacts:
    """Validations between the first step and the last: stretches of eval-mode passes between two updates."""

    count: int
    steps_between: float
    seconds_per_step: float  # in the passes
    wait_per_step_s: float  # for other loaders
    at: Location | None  # the line of the loop that validates again and again
    passes: Location | None  # the line that calls the model
    dependence: Dependence = Dependence.UNKNOWN  # of the updates on what the line at `at` does
    interval: Interval = OF_STEPS  # at which the line at `at` runs
    # What other findings are about, whose cures keep the interval: of the passes, what a key/value cache
    # would spare, and of the waits, what other settings of the loader's workers would.
    spared_per_step_s: float = 0.0
    spared_wait_per_step_s: float = 0.0
    likewise: tuple[Location, ...] = ()  # lines beside the one at `at` that call the same


@fact
def validation_facts(
    rank: RankRecords,
    steps: Steps,
    step: StepFacts,
    loader: LoaderFacts | Missing | None,
    sources: Sources,
    other: ValidationLoaderFacts | Missing | None,
    model: StepModel | Missing,
    cpu: CpuFacts | Missing,
    prefixes: RepeatedPrefixesFacts | Missing | None,
) -> ValidationFacts | None:
    """What validating took from the run, or None where no step was followed by one."""
    seconds = step.seconds.get(Phase.VALIDATION, 0.0)
    single = steps.weight <= 1.0  # an entry of rolled-up rows stands for many steps
    followed = np.flatnonzero(steps.phases[Phase.VALIDATION][single] > 0)
    if seconds <= 0.0 or not len(followed):
        return None
    share = len(followed) / int(single.sum())
    between = float(np.median(np.diff(followed))) if len(followed) > 1 else 1.0 / share
    evals = rank.of(EvalEvent)
    lines = [at for line in (evals[-1].lines or ()) if (at := sources.shown(location(line)))] if evals else []
    at = _again(lines, sources)
    waits_s, spared_s = _waits_s(step, loader, other, model, cpu)
    return ValidationFacts(
        count=round(share * step.count),
        steps_between=between,
        seconds_per_step=seconds,
        wait_per_step_s=waits_s,
        at=at,
        passes=lines[0] if lines else None,
        likewise=tuple(_likewise(at, lines, sources)) if at is not None else (),
        dependence=of_line(sources, at) if at is not None else Dependence.UNKNOWN,
        interval=Intervals(sources).of(at, between) if at is not None else OF_STEPS,
        spared_per_step_s=min(seconds, _spared(prefixes) * step.mean_s),
        spared_wait_per_step_s=spared_s,
    )


def _spared(prefixes: RepeatedPrefixesFacts | Missing | None) -> float:
    """The share of the run that generation in validation computes again for want of a cache."""
    return prefixes.again if isinstance(prefixes, RepeatedPrefixesFacts) and prefixes.pauses else 0.0


def _waits_s(
    step: StepFacts,
    loader: LoaderFacts | Missing | None,
    other: ValidationLoaderFacts | Missing | None,
    model: StepModel | Missing,
    cpu: CpuFacts | Missing,
) -> tuple[float, float]:
    """Waits for other loaders, and what workers would take away of them.

    More of them, or such as live on between two validations.
    """
    if not isinstance(loader, LoaderFacts):
        return 0.0, 0.0
    waits_s = loader.other_wait_s
    spared_s = loader.others_restart_s
    if (
        isinstance(other, ValidationLoaderFacts)
        and isinstance(model, StepModel)
        and isinstance(cpu, CpuFacts)
    ):
        more = more_for_validation(step, loader, other, model, cpu)
        spared_s += more[1].likely * step.mean_s if more else 0.0
    return waits_s, min(waits_s, spared_s)


def _again(lines: Sequence[Location], sources: Sources) -> Location | None:
    """The innermost caller outside the function that calls the model, where it stands in a loop.

    Of callers from the first that trains as well, none is meant: what it calls for validation alone is.
    """
    if not lines:
        return None
    flow = ValueFlow(sources)
    alone = list(takewhile(lambda at: not flow.trains(at.file, at.line), lines))
    outside = [at for at in alone if (at.file, at.function) != (lines[0].file, lines[0].function)]
    looping = (at for at in outside if sources.file(at.file).outermost_loop(at.line) is not None)
    return next(looping, outside[-1] if outside and len(alone) < len(lines) else lines[0])


def _likewise(at: Location, lines: Sequence[Location], sources: Sources) -> Iterator[Location]:
    """Other lines around a caller that call the same: `validate(a)` beside `validate(b)`."""
    called = [inner.function for inner, outer in pairwise(lines) if outer == at]
    listing = sources.file(at.file)
    scope = listing.scope(at.line)
    for node in statements(scope.body) if scope is not None and called and called[0] else ():
        names = {name for _, name in calls(node)}
        if not covers(node, at.line) and str(called[0]).rpartition(".")[2] in names:
            yield sources.at(at.file, node.lineno)
