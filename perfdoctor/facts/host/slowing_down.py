"""Tells why steps take longer and longer: SlowingFacts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum

from perfdoctor.facts.data.nested_datasets import NestedDatasets
from perfdoctor.facts.decode import Json, number
from perfdoctor.facts.host.between_steps import BetweenStepsFacts
from perfdoctor.facts.host.memory_growth import MemoryGrowth
from perfdoctor.facts.host.resources import ENOUGH, HostSamples, UsedDevices
from perfdoctor.facts.host.stack_costs import StackCosts
from perfdoctor.facts.host.step_growth import SETTLING, StepGrowth
from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.retained_graph import MOSTLY, RetainedGraphFacts
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.steps.trend import slope
from perfdoctor.facts.user_source.growing_names import growing_name, writes_all
from perfdoctor.facts.user_source.parse import Sources, statements, written_below
from perfdoctor.facts.user_source.registered_hooks import never_removed
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LineCost, Location, Phase, StackFacts
from perfdoctor.model.missing import Missing

PAGE_S = 1e-4  # to read a page back from an SSD: the latency of a random 4 KiB read
PAGE_BYTES = 4096
ONE_PHASE = 0.6  # of the growth lies in it
WRITING = frozenset({"logging", "checkpoint"})  # kinds of lines
FASTER = 2.0  # times faster than the rest of the step, by what each took at first


class Cause(str, Enum):
    """Why steps become slower."""

    WORK = "work"  # one phase does more and more
    GRAPHS = "graphs"  # graphs of past steps stay alive
    DATASETS = "datasets"  # items pass through more and more wrappers
    SWAPPING = "swapping"
    CLOCK = "clock"  # the processor runs slower
    CORES = "cores"  # other programs take the cores
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class SlowingFacts:
    """Steps that become slower all along, and why."""

    cause: Cause
    first_s: float  # the usual step at the begin of the run
    last_s: float  # in the last tenth
    slower: float  # share of the mean step, pauses left out, that was not there at the beginning
    phase: Phase | None = None  # that grows, where it is one alone
    phase_share: float = 0.0  # of the growth
    line: LineCost | None = None  # the phase's costliest, or the one that works on what grows
    name: str | None = None  # what it works on, and other lines make longer
    adds: Location | None = None  # such a line
    bytes_per_step: float | None = None  # growth of the process's memory
    clock_hz: tuple[float, float] | None = None  # of the processor, at the beginning and at the end
    hook: Location | None = None  # registers the hook that the line is in, and nothing removes it
    writes: bool = False  # the line writes all of that to a file, and takes as much as there is to explain
    called: Location | None = None  # the line that leads to it, where that one is a log
    opens: Location | None = None  # the line that opens the file, and closes it behind the one that writes


@fact
def slowing_facts(
    growth: StepGrowth,
    memory: MemoryGrowth | Missing,
    retained: RetainedGraphFacts | Missing | None,
    nested: NestedDatasets | Missing | None,
    between: BetweenStepsFacts | Missing,
    stacks: StackFacts | Missing,
    costs: StackCosts | Missing | None,
    samples: HostSamples,
    devices: UsedDevices,
    span: MeasuredSpan,
    sources: Sources,
) -> SlowingFacts:
    """Why the steps of this run become slower."""
    clock_hz = _clock_hz(samples, devices, span)
    cause = _outside(growth, samples, span, clock_hz)
    if cause is None and isinstance(retained, RetainedGraphFacts):
        cause = Cause.GRAPHS
    phase = _phase(growth) if cause is None else None
    if phase is Phase.DATA_WAIT and isinstance(nested, NestedDatasets) and nested.share >= MOSTLY:
        cause = Cause.DATASETS
    line, name, adds, called, least = None, None, None, None, 1.0
    if phase is not None and isinstance(stacks, StackFacts):
        anchors = costs.anchors if isinstance(costs, StackCosts) else frozenset()
        least = MOSTLY * growth.slower * growth.phases[phase]
        working = _on_what_grows(_candidates(phase, between, stacks), sources, anchors, least)
        costliest = next(iter(stacks.phases.get(phase, ())), None)
        line, name, adds = working or (_innermost(costliest) if costliest is not None else None, None, None)
        logged = (each for lines in stacks.phases.values() for each in lines)
        called = next((each.at for each in logged if line is not None and each.inner == line.at), None)
    return SlowingFacts(
        cause=cause or (Cause.UNKNOWN if phase is None else Cause.WORK),
        first_s=growth.begin_s,
        last_s=growth.last_s,
        slower=growth.slower,
        phase=phase,
        phase_share=min(1.0, growth.phases[phase]) if phase is not None else 0.0,
        line=line,
        name=name,
        adds=adds,
        bytes_per_step=None if isinstance(memory, Missing) else memory.host_bytes_per_step,
        clock_hz=clock_hz,
        hook=_hook(line, stacks, sources) if name is None else None,
        writes=line is not None and _writes(line, name, sources, least),
        called=called,
        opens=_opens(line, sources) if line is not None else None,
    )


def _outside(
    growth: StepGrowth, samples: Sequence[Json], span: MeasuredSpan, clock_hz: tuple[float, float] | None
) -> Cause | None:
    """What slows the process down from outside, if that explains most of the growth."""
    grown_s = growth.last_s - growth.first_s
    if _swapped_pages(samples) / span.steps * PAGE_S >= MOSTLY * grown_s:
        return Cause.SWAPPING
    if clock_hz is not None and (clock_hz[0] / clock_hz[1] - 1) * growth.first_s >= MOSTLY * grown_s:
        return Cause.CLOCK
    waits = growth.waiting is not None and growth.waiting >= MOSTLY
    if growth.cpu is None:
        return Cause.CORES if waits else None
    if growth.cpu >= MOSTLY:
        return None  # steps that do more also wait longer for cores that others want
    return Cause.CORES if waits else Cause.UNKNOWN


def _swapped_pages(samples: Sequence[Json]) -> float:
    read = [number(memory.get("swapped_in_bytes")) for entry in samples if (memory := entry.get("memory"))]
    return max(0.0, read[-1] - read[0]) / PAGE_BYTES if read else 0.0


def _clock_hz(
    samples: Sequence[Json], devices: UsedDevices, span: MeasuredSpan
) -> tuple[float, float] | None:
    """Of the accelerator that slowed down most, else of the cores: where the settled run begins and ends."""
    clocks = [_ends(rows, "sm_clock_mhz", span) for rows in devices.values()]
    known = [(first * 1e6, last * 1e6) for ends in clocks if ends is not None for first, last in (ends,)]
    if known:
        return max(known, key=lambda ends: ends[0] / ends[1])
    return _ends(samples, "clock_hz", span)


def _ends(rows: Sequence[Json], key: str, span: MeasuredSpan) -> tuple[float, float] | None:
    """Where the robust line through a figure begins and ends."""
    begin_ns = span.begin_ns + SETTLING * (span.end_ns - span.begin_ns)
    seen = [(number(row.get("t_ns")), number(row[key])) for row in rows if row.get(key)]
    settled = [(t_ns - begin_ns, value) for t_ns, value in seen if t_ns >= begin_ns]
    if len(settled) < ENOUGH:
        return None
    rate = slope(*zip(*settled, strict=True)) or 0.0
    offsets = sorted(value - rate * t_ns for t_ns, value in settled)
    first = offsets[len(offsets) // 2]
    last = first + rate * (span.end_ns - begin_ns)
    return (first, last) if min(first, last) > 0 else None


def _phase(growth: StepGrowth) -> Phase | None:
    """The phase that most of the growth lies in, while the rest of the step hardly grows.

    Where everything grows alike, the machine became slower, or the batches became larger.
    """
    phase = max(growth.phases, key=lambda each: growth.phases[each])
    share = growth.phases[phase]
    first_s, rest_s = growth.first[phase], sum(growth.first.values()) - growth.first[phase]
    grows_faster = share * rest_s >= FASTER * max(0.0, 1.0 - share) * first_s
    return phase if share >= ONE_PHASE and grows_faster else None


def _on_what_grows(
    lines: Iterable[LineCost], sources: Sources, anchors: frozenset[tuple[str, int]], least: float
) -> tuple[LineCost, str, Location] | None:
    """The costliest line that works on what grows, where such lines take as much as there is to explain.

    `least`: the share of the step that all lines which work on the same take together.
    """
    found = [
        (line, *grown) for line in lines if (grown := growing_name(sources, line.at, anchors)) is not None
    ]
    shares: dict[tuple[str, str], dict[Location, float]] = defaultdict(dict)
    for line, name, _ in found:
        shares[line.at.file, name][line.at] = line.share
    explaining = (each for each in found if sum(shares[each[0].at.file, each[1]].values()) >= least)
    return next(explaining, None)


def _hook(line: LineCost | None, stacks: StackFacts | Missing, sources: Sources) -> Location | None:
    """Where the hook is registered that a line is in, called from any file that was seen at work."""
    if line is None or isinstance(stacks, Missing):
        return None
    files = {each.at.file for lines in stacks.phases.values() for each in lines}
    return never_removed(sources, line.at, sorted(files))


def _candidates(phase: Phase, between: BetweenStepsFacts | Missing, stacks: StackFacts) -> Iterator[LineCost]:
    """Lines of the phase; timers put what lies between the phases to the one before it."""
    for each in dict.fromkeys((phase, Phase.OTHER)):
        for line in stacks.phases.get(each, ()):
            yield line
            if line.inner is not None:
                yield _innermost(line)
    if not isinstance(between, Missing):
        yield from (LineCost(line.at, line.share, line.samples) for line in between.lines)


def _innermost(line: LineCost) -> LineCost:
    """The line itself, or of one that logs by others the one that does most of it."""
    return line if line.inner is None else replace(line, at=line.inner, inner=None)


def _writes(line: LineCost, name: str | None, sources: Sources, least: float) -> bool:
    """Whether a line takes so much of the step at least by writing what grows."""
    return line.kind in WRITING and line.share >= least and writes_all(sources, line.at, name)


def _opens(line: LineCost, sources: Sources) -> Location | None:
    """The `with` that opens the file which a line writes to."""
    listing = sources.file(line.at.file)
    node, scope = listing.statement(line.at.line), listing.scope(line.at.line)
    around = statements(scope.body) if scope is not None else ()
    header = next((each for each in around if node in written_below(each)), None)
    return sources.at(line.at.file, header.lineno, line.at.function) if header is not None else None
