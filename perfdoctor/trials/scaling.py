"""The scaling curve: the same training with several numbers of ranks, in turns, and what bounds it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean, median

from perfdoctor import recorded, samplers
from perfdoctor.analysis.scaling import ScaleModel
from perfdoctor.analysis.stepmodel import BEST, LIKELY, WORST
from perfdoctor.errors import PerfdoctorError
from perfdoctor.model import Gain, Phase
from perfdoctor.samplers import gpu
from perfdoctor.trial import Ending, Execution, Scaled, Trial, Variant, Verdict
from perfdoctor.trials import conduct, launching
from perfdoctor.trials.asked import Asked, Progress
from perfdoctor.trials.bench import Bench
from perfdoctor.trials.measured import MOVING, WAITING

DATA, COMPUTING, REST = "data", "computing", "other"
CAUSES: Mapping[str, str] = {  # of each phase of an execution; the rest is `other`
    WAITING: WAITING,
    MOVING: MOVING,
    Phase.DATA_WAIT.value: DATA,
    Phase.FORWARD.value: COMPUTING,
    Phase.BACKWARD.value: COMPUTING,
    Phase.OPTIMIZER.value: COMPUTING,
}
FURTHER = 2  # times as many ranks as were measured: beyond, the exchange may be another
LITTLE = 0.05  # of a step: what is lost below that is no bound, and rounds differ by as much
BUSY = 0.9  # of the usable cores: the rest goes to starts, ends and the launcher
THREADS = "OMP_NUM_THREADS"


def scale(asked: Asked, progress: Progress) -> Trial:
    """Measure the command with each of the numbers of ranks asked for, the fewest of which is the base.

    Raises PerfdoctorError where nothing can be measured, and for a script whose processes never join.
    """
    began_s = time.monotonic()
    launching.command(asked.command, asked.ranks[0], os.environ)  # raises, before anything is made
    base, *others = (Variant(ranks=count) for count in asked.ranks)
    notes = [*_crowded(asked.ranks[-1]), *_threads(asked.ranks)]
    for note in notes:
        progress.say(note)
    try:
        bench, protection = conduct.prepare(asked, progress, None, others, len(others), others[-1])
        _check_joined(bench, asked.ranks[-1])
        verdicts = bench.compare(others, base)
    finally:
        progress.end()
    trial = conduct.conclude(asked, bench, verdicts, protection, time.monotonic() - began_s)
    cores = samplers.usable_cores()[0]
    points = curve(trial.originals, verdicts, asked.ranks, cores)
    beyond = expected(points, trial.originals, verdicts[-1].executions, cores) if verdicts else None
    return replace(
        trial,
        base=base,
        scaling=points if beyond is None else (*points, beyond),
        notes=(*trial.notes, *notes, *_uncounted(trial)),
    )


def curve(
    originals: Sequence[Execution], verdicts: Sequence[Verdict], ranks: Sequence[int], cores: float
) -> tuple[Scaled, ...]:
    """A point for each number of ranks, the fewest first: executions of that are `originals`."""
    fewest = _point(ranks[0], originals)
    before = _phases(originals)
    points = [fewest]
    for count, verdict in zip(ranks[1:], verdicts, strict=True):
        point, gain = _point(count, verdict.executions), verdict.speedup
        after = _phases(verdict.executions)
        if gain is None or not before or not after:
            points.append(replace(point, speedup=gain))
            continue
        lost = {cause: after[cause] - before[cause] for cause in after}
        points.append(
            replace(
                point,
                speedup=gain,
                efficiency=_over(gain, count / ranks[0]),
                lost=lost,
                bound=_bound(lost, sum(before.values()), sum(after.values()), verdict.executions, cores),
            )
        )
    return tuple(points)


def expected(
    points: Sequence[Scaled], originals: Sequence[Execution], most: Sequence[Execution], cores: float
) -> Scaled | None:
    """Twice as many ranks as the most that were measured, as the model of the report sees them.

    None where those were not measured, or trained on a device: what they exchange there is not in the timers.
    """
    before, after = _phases(originals), _phases(most)
    fewest, last = points[0], points[-1]
    on_device = any(execution.device_bytes for execution in most)
    if not before or not after or on_device or last.speedup is None or last.ranks < 2:
        return None
    synced_s = after[WAITING] + after[MOVING]
    step_s, before_s = sum(after.values()), sum(before.values())
    cpu_s = median(each.cpu_s or 0.0 for each in most if each.ending is Ending.MEASURED) / last.ranks
    model = ScaleModel(
        ranks=last.ranks,
        nodes=1,
        own_s=step_s - synced_s,
        moving_s=after[MOVING],
        exposed_s=after[MOVING],
        waiting_s=after[WAITING],
        cpu_s=cpu_s,
        cores=min(cores, _got(last.ranks, step_s - synced_s, after[COMPUTING], cpu_s) or cores),
        data_s=after[DATA],
    )
    ranks = FURTHER * last.ranks
    times = ranks / fewest.ranks
    worst, likely, best = sorted(
        times * before_s / model.step_s(ranks, case) for case in (WORST, LIKELY, BEST)
    )
    known = last.speedup  # no more is known of more ranks than of those measured
    gain = Gain(worst * known.low / known.likely, likely, best * known.high / known.likely)
    return Scaled(
        ranks,
        model.step_s(ranks),
        None,
        gain,
        _over(gain, times),
        bound=model.bound(ranks)[1],
        expected=True,
    )


def _got(ranks: int, own_s: float, computing_s: float, cpu_s: float) -> float | None:
    """Cores that the ranks got, where they wanted more: they compute, and less than a core each is busy.

    Then others use the rest, and will when there are more ranks.
    """
    lacking = computing_s >= BUSY * own_s > 0 and 0 < cpu_s < BUSY * own_s
    return max(0.1, round(ranks * cpu_s / own_s, 1)) if lacking else None  # it is shown


def _point(ranks: int, executions: Sequence[Execution]) -> Scaled:
    whole = [execution for execution in executions if execution.ending is Ending.MEASURED]
    steps_s = [execution.step_s for execution in whole if execution.step_s]
    rates = [execution.samples_per_s for execution in whole if execution.samples_per_s]
    return Scaled(
        ranks,
        geometric_mean(steps_s) if steps_s else None,
        geometric_mean(rates) if rates else None,
    )


def _over(gain: Gain, times: float) -> Gain:
    return Gain(gain.low / times, gain.likely / times, gain.high / times)


# ---------------------------------------------------------------- what bounds it


def _phases(executions: Sequence[Execution]) -> dict[str, float]:
    """Seconds of a step by cause, medians over rounds; empty where nothing was measured."""
    whole = [own for own in executions if own.ending is Ending.MEASURED and own.phases]
    if not whole:
        return {}
    names = (*dict.fromkeys(CAUSES.values()), REST)
    parts = [_by_cause(own.phases) for own in whole]
    return {name: median(part.get(name, 0.0) for part in parts) for name in names}


def _by_cause(phases: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for phase, seconds in phases.items():
        cause = CAUSES.get(phase, REST)
        found[cause] = found.get(cause, 0.0) + seconds
    return found


def _bound(
    lost: Mapping[str, float],
    before_s: float,
    after_s: float,
    executions: Sequence[Execution],
    cores: float,
) -> str:
    """What a step has become longer by, most of all, and what helps."""
    if after_s - before_s < LITTLE * before_s:
        return "nothing yet: a step takes hardly longer"
    cause = max(lost, key=lambda name: lost[name])
    took = f"{lost[cause] / after_s:.0%} of a step"
    if cause == WAITING:
        return f"{took} is waiting for the rank that comes last: the ranks are uneven, or short of cores"
    if cause == MOVING:
        return f"{took} is moving gradients, hidden by nothing: fewer or smaller exchanges, or a faster link"
    if cause == DATA:
        return f"{took} more is waiting for batches: the ranks share what prepares or stores them"
    if cause == COMPUTING:
        return f"{took} more is computing: {_shared(executions, cores)}"
    return f"{took} more is Python between the phases: the ranks share the cores that it needs"


def _shared(executions: Sequence[Execution], cores: float) -> str:
    """What ranks that compute share."""
    if any(execution.device_bytes for execution in executions):
        return "exchanges that backward does not hide count as that on a device, and so do slower clocks"
    wanted = [each.cpu_s / each.step_s for each in executions if each.cpu_s and each.step_s]
    if wanted and median(wanted) >= BUSY * cores:
        return f"the ranks keep {median(wanted):.1f} of {cores:g} usable cores busy"
    return "the ranks share memory bandwidth and caches, or have fewer threads each"


# ---------------------------------------------------------------- what is said before, and checked


def _crowded(most: int) -> Iterator[str]:
    """More ranks than there is room for."""
    gpus, cores = _gpus(), samplers.usable_cores()[0]
    if gpus and most > gpus:
        yield f"{most} ranks on {gpus} GPU{'' if gpus == 1 else 's'}: they share them, or fail"
    elif not gpus and most > cores:
        yield f"{most} ranks on {cores:g} usable cores: they share them, and none is as fast as alone"


def _gpus() -> int:
    """Devices that NVML shows to commands started here."""
    nvml = gpu.load()
    if nvml is None:
        return 0
    sampler = gpu.GpuSampler(Path(), nvml, os.environ)
    sampler.close()
    return len(sampler.devices)


def _threads(ranks: Sequence[int]) -> Iterator[str]:
    """One rank alone computes with all cores, where torch's launcher gives each of several one thread."""
    if ranks[0] == 1 and THREADS not in os.environ and not _gpus():
        yield (
            f"torchrun gives each of several ranks one thread, and one rank all: set {THREADS} to compare "
            "ranks with as many threads"
        )


def _check_joined(bench: Bench, ranks: int) -> None:
    """Raise where the processes of the first look trained each for itself."""
    looked = bench.looked
    records = recorded.read(Path(looked.log).with_suffix(""))
    if looked.ranks < ranks:
        raise PerfdoctorError(
            f"of {ranks} ranks, {looked.ranks} took steps that could be measured",
            f"what they printed is in {looked.log}",
        )
    joined = any(own.of("process_group") or own.of("wrapper") for own in records.ranks.values())
    if not joined:
        raise PerfdoctorError(
            f"the script cannot be scaled: {ranks} processes of it never called init_process_group",
            "it has to exchange gradients first: perfdoctor tips data-parallel tells how",
        )


def _uncounted(trial: Trial) -> Iterator[str]:
    if not all(execution.samples_per_s for execution in trial.originals):
        yield "samples could not be counted: each rank is taken to train with as many in a step"
