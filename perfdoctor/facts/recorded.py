"""Puts the records of a run into the plain form in which other programs get them: Recorded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from perfdoctor.facts.decode import Json, as_count, number, positive, processes, sanitized
from perfdoctor.facts.gather import first_trained
from perfdoctor.facts.steps.boundaries import Steps
from perfdoctor.facts.sync_in_backward import exchanging
from perfdoctor.facts.user_source.frames import Owner, parse, wrapped
from perfdoctor.model.measured import Phase
from perfdoctor.model.recorded import HostSample, Recorded, RecordedStack, RecordedStep
from perfdoctor.runs.types import RankRecords, RunRecords

MAIN = "main"  # the thread that trains
LOADER = "loader"  # the phase of what loader workers do

StackKey = tuple[str, str, tuple[str, ...]]  # thread, phase, frames


def recorded(records: RunRecords) -> Recorded:
    """The steps, stacks and samples of the lowest rank that trained; of the lowest one where none did."""
    records = sanitized(records)
    trained, steps = first_trained(records)
    rank = trained if trained is not None else min(records.ranks, default=0)
    own = records.ranks.get(rank)
    at_ns = [
        *([float(steps.begin_ns[0])] if steps else []),
        *(number(each.get("t_ns")) for each in records.host),
    ]
    begin_ns = positive(records.run.get("begin_ns")) or min(at_ns, default=0.0)
    return Recorded(
        str(records.run.get("id") or records.path.name),
        rank,
        number(records.run.get("started_epoch_s")),
        tuple(_steps(steps, begin_ns)) if steps is not None else (),
        tuple(sample for entry in records.host for sample in _processes(entry, begin_ns)),
        tuple(recorded_stacks(own, _spent(steps))) if own is not None else (),
        sample_s(own) if own is not None else None,
    )


def _spent(steps: Steps | None) -> Mapping[Phase, float]:
    """Seconds of all steps by phase."""
    return {phase: float(values.sum()) for phase, values in steps.phases.items()} if steps is not None else {}


def _steps(steps: Steps, begin_ns: float) -> Iterator[RecordedStep]:
    """The steps in order; numbers and seconds of a row that stands for several are their means."""
    made, phases = 0.0, {phase: (values / steps.weight).tolist() for phase, values in steps.phases.items()}
    begins, lengths = ((steps.begin_ns - begin_ns) / 1e9).tolist(), (steps.seconds / steps.weight).tolist()
    samples, losses = (steps.samples / steps.weight).tolist(), steps.loss.tolist()
    for place, weight in enumerate(steps.weight.tolist()):
        loss = losses[place]
        yield RecordedStep(
            round(made),
            begins[place],
            lengths[place],
            {phase: values[place] for phase, values in phases.items()},
            samples[place],
            loss if math.isfinite(loss) else None,
            weight,
        )
        made += weight


def _processes(entry: Json, begin_ns: float) -> Iterator[HostSample]:
    for proc in processes(entry):
        cpu_s = proc.get("cpu_s")
        yield HostSample(
            (number(entry.get("t_ns")) - begin_ns) / 1e9,
            as_count(proc.get("pid")) or 0,
            str(proc.get("role") or ""),
            None if cpu_s is None else number(cpu_s),
            as_count(proc.get("threads")),
            *(as_count(proc.get(name)) for name in ("rss_bytes", "read_bytes", "written_bytes")),
        )


def sample_s(rank: RankRecords) -> float | None:
    """The seconds that a stack sample stands for, as its sampler declared; None where it did not."""
    return 1 / rank.stacks_rate_hz if rank.stacks_rate_hz else None


def recorded_stacks(rank: RankRecords, seconds: Mapping[Phase, float]) -> Iterator[RecordedStack]:
    """Each thread's stacks by phase, without the probe's own frames; equal ones added up.

    `seconds` is what the timers say of the phases, of a step or of all; empty where no step was made.
    """
    counts = _counted(rank)
    _divide_backward(counts, seconds)
    for (thread, phase, shown), samples in sorted(counts.items()):
        if samples:
            yield RecordedStack(thread, phase, shown, samples)


def _counted(rank: RankRecords) -> Counter[StackKey]:
    counts: Counter[StackKey] = Counter()
    for (thread, *names), samples in (stack for stack in rank.stacks if stack[0]):
        frames = [(name, parse(name)) for name in names]
        if any(frame is not None and frame.profiles for _, frame in frames):
            continue
        known = [frame for _, frame in frames if frame is not None]
        phases = [each for index in wrapped(known) if (each := known[index].phase) is not None]
        phase = phases[-1].value if phases else Phase.OTHER.value
        shown = tuple(name for name, frame in frames if frame is None or frame.owner is not Owner.PROBE)
        counts[thread, LOADER if thread.startswith("worker ") else phase, shown] += samples
    return counts


def _divide_backward(counts: Counter[StackKey], seconds: Mapping[Phase, float]) -> None:
    """Move the samples of backward in which gradients were exchanged to the phase of that.

    Phases are compared without `other`: its samples are of the time before and after training as well.
    """
    samples: Counter[Phase] = Counter()
    for (thread, phase, _), count in counts.items():
        if thread == MAIN and phase != Phase.OTHER.value:
            samples[Phase(phase)] += count
    timed: dict[Phase, float] = {
        phase: value_s for phase, value_s in seconds.items() if phase is not Phase.OTHER
    }
    backward = sorted(key for key in counts if key[:2] == (MAIN, Phase.BACKWARD.value))
    for key, count in zip(
        backward, exchanging([counts[key] for key in backward], timed, samples), strict=True
    ):
        counts[key] -= count
        counts[MAIN, Phase.GRAD_SYNC.value, key[2]] += count
