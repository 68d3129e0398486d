"""Divides the time from the start of the process to its first step: StartUpFacts."""

from __future__ import annotations

from collections.abc import Mapping

from perfdoctor.facts.decode import Json, as_count, location, positive
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.boundaries import Steps
from perfdoctor.facts.steps.summary import TimedStep, boot_of
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords, RunRecords
from perfdoctor.wire.events.startup import StartUpEvent

FEW = 5  # samples below which nothing is said of lines
TRAINING = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


@dataclass(frozen=True)
class StartUpLine:
    """One line of the user's code and the seconds of start-up that it takes."""

    at: Location
    kind: str  # script, import, model, batch or compile
    seconds: float


@dataclass(frozen=True)
class StartUpFacts:
    """The time until training is under way, and what it goes into."""

    seconds: (
        float  # from the start of the process to its first step, and what that one takes beyond the usual
    )
    share: float  # of the time that the process ran
    torch_s: float  # until torch was imported
    first_batch_s: float  # that the first step waits for its batch, beyond the usual step
    first_compute_s: float  # that it computes beyond the usual step: compiling, choosing algorithms
    waiting_s: float  # that its thread was ready and had no core, after torch was imported
    sampled: Mapping[str, float]  # seconds by kind, of what came after torch; time without a core is left out
    lines: tuple[StartUpLine, ...]  # costliest first, likewise


@fact
def startup_facts(
    records: RunRecords,
    rank: RankRecords,
    steps: Steps,
    timed: TimedStep,
    events: list[StartUpEvent],
    sources: Sources,
) -> StartUpFacts | Missing | None:
    """How the process started, or None where that was not sampled, or too short to be worth it."""
    if not events or events[0].samples < FEW:
        return None
    entry = events[0]
    begin_ns = positive((boot_of(rank, records.boots) or {}).get("begin_ns"))
    if begin_ns is None:
        return Missing("when the process started is not known")
    step = timed.step
    usual = step.median_s

    def beyond(*phases: Phase) -> float:
        own = sum(float(steps.phases[phase][0]) for phase in phases)
        return max(0.0, own - sum(step.seconds.get(phase, 0.0) for phase in phases))

    seconds = step.startup_s + max(0.0, float(steps.seconds[0]) - usual)
    ran_s = (int(steps.end_ns[-1]) - begin_ns) / 1e9 + (step.tail_s or 0.0)
    sampled_s = max(0.0, (entry.end_ns - entry.begin_ns) / 1e9)
    worked_s = max(0.0, sampled_s - (entry.delay_s or 0.0))
    each_s = worked_s / entry.samples
    lines = [line for seen in entry.lines if (line := _line(seen, each_s, sources)) is not None]
    by_kind: dict[str, float] = {}
    for line in lines:
        by_kind[line.kind] = by_kind.get(line.kind, 0.0) + line.seconds
    return StartUpFacts(
        seconds=seconds,
        share=min(1.0, seconds / ran_s) if ran_s > 0 else 0.0,
        torch_s=max(0.0, (entry.begin_ns - begin_ns) / 1e9),
        first_batch_s=steps.loaded_s + beyond(Phase.DATA_WAIT),
        first_compute_s=beyond(*TRAINING),
        waiting_s=sampled_s - worked_s,
        sampled=by_kind,
        lines=tuple(sorted(lines, key=lambda line: -line.seconds)),
    )


def _line(seen: Json, each_s: float, sources: Sources) -> StartUpLine | None:
    at = sources.shown(location(seen))
    if at is None:
        return None
    kind, samples = seen.get("kind"), as_count(seen.get("samples"))
    if samples is None or not isinstance(kind, str):
        return None
    return StartUpLine(at, kind, samples * each_s)
