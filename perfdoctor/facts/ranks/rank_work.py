"""What a rank is given to compute, and the lines that take its time, held against those of other ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, median, stdev

from perfdoctor.facts.host.stack_costs import stack_costs
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.ranks import InputSizeEvent

Lines = Mapping[tuple[Phase, Location], float]

FEW = 4  # looks at what a model is called with; fewer do not tell what batches are like
DIFFERENT, CERTAIN = 0.1, 2.0  # more than the usual rank has, and in standard errors
MUCH = 0.25  # of what a rank takes longer: a line that takes it less longer is not named
NAMED = 2  # lines
ALONE = 0.2  # of a rank's time at a line: a usual rank with no more does without it


@dataclass(frozen=True)
class InputSize:
    """Elements of all tensors that a model is called with: their mean, and its standard error."""

    mean: float
    error: float


def input_size(records: RankRecords) -> InputSize | None:
    """What a rank's model is called with; None where too few calls were looked at."""
    sizes = [float(event.elements) for event in records.of(InputSizeEvent)]
    if len(sizes) < FEW:
        return None
    return InputSize(mean(sizes), stdev(sizes) / len(sizes) ** 0.5)


def times_larger(own: InputSize | None, others: Sequence[InputSize | None]) -> float | None:
    """How many times as large a rank's inputs are as the usual rank's; None where not larger for certain."""
    known = [size for size in others if size is not None]
    if own is None or not known:
        return None
    usual, error = median(size.mean for size in known), max(size.error for size in known)
    more = own.mean - usual
    if usual <= 0 or more < max(DIFFERENT * usual, CERTAIN * (own.error**2 + error**2) ** 0.5):
        return None
    return own.mean / usual


def line_seconds(records: RankRecords, step: StepFacts) -> Lines:
    """Seconds a step by phase and line of the user's, as stack samples saw them; empty without samples."""
    costs = stack_costs(records, step, Sources(lambda file, line: None))
    found: dict[tuple[Phase, Location], float] = {}
    if not isinstance(costs, Missing):
        for cost in costs.costs:
            at = Location(cost.line.file, cost.line.line, cost.line.name, None)
            found[cost.phase, at] = found.get((cost.phase, at), 0.0) + cost.seconds
    return found


def slower_lines(phase: Phase, excess_s: float, own: Lines, others: Sequence[Lines]) -> tuple[Location, ...]:
    """The lines at which a rank takes longer, where they explain much of what it takes longer in a phase."""
    if not own or not all(others):
        return ()
    more_s = {
        at: seconds - _usual_s(phase, at, others) for (inside, at), seconds in own.items() if inside is phase
    }
    ranked = sorted(more_s, key=lambda at: -more_s[at])
    return tuple(at for at in ranked[:NAMED] if more_s[at] >= MUCH * excess_s > 0)


def is_alone(phase: Phase, at: Location, own: Lines, others: Sequence[Lines]) -> bool:
    """Whether the usual rank has next to no time at a line that takes a rank some."""
    return _usual_s(phase, at, others) <= ALONE * own.get((phase, at), 0.0)


def _usual_s(phase: Phase, at: Location, others: Sequence[Lines]) -> float:
    return median(lines.get((phase, at), 0.0) for lines in others)
