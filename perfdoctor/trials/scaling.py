"""The scaling curve: the same training with several numbers of ranks, in turns, and what bounds it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from perfdoctor.errors import PerfdoctorError
from perfdoctor.facts.predict.scaling import ScaleModel
from perfdoctor.facts.predict.step_model import BEST, LIKELY, WORST
from perfdoctor.model.concluded import Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Phase
from perfdoctor.model.note import Note
from perfdoctor.model.trial import (
    Execution,
    ExecutionEnd,
    ExecutionSummary,
    Scaled,
    Trial,
    Variant,
    VariantResult,
)
from perfdoctor.runs import records as recorded
from perfdoctor.trials.measure import MOVING, WAITING
from perfdoctor.trials.request import Request
from perfdoctor.trials.rounds import Bench
from perfdoctor.trials.settings import rank_count
from perfdoctor.watch import samplers
from perfdoctor.watch.samplers import devices

DATA, COMPUTING, REST = "data", "computing", "other"
BOUNDS = {  # what a step has become longer by; how computing has, is told beside it
    WAITING: "waits-for-straggler",
    MOVING: "transfers-gradients",
    DATA: "waits-for-batches",
}
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


@dataclass(frozen=True)
class ScalingCurve:
    """The command with each of several numbers of ranks, the fewest of which is the base."""

    ranks: tuple[int, ...]
    baseline: None = None  # a run was watched with one number of ranks: it predicts nothing here
    warnings: tuple[Note, ...] = ()

    @classmethod
    def of(cls, request: Request) -> ScalingCurve:
        """Raises PerfdoctorError for a command that cannot be started in several processes."""
        rank_count.command(request.command, request.ranks[0], os.environ)
        return cls(request.ranks, warnings=(*_crowded(request.ranks[-1]), *_threads(request.ranks)))

    @property
    def variants(self) -> list[Variant]:
        """All numbers but the fewest."""
        return [Variant(ranks=count) for count in self.ranks[1:]]

    @property
    def comparisons(self) -> int:
        """One for each number but the fewest."""
        return len(self.ranks) - 1

    @property
    def abreast(self) -> int:
        """All but the fewest."""
        return len(self.variants)

    @property
    def base(self) -> Variant:
        """The fewest ranks."""
        return Variant(ranks=self.ranks[0])

    @property
    def calibrated(self) -> Variant:
        """The most ranks."""
        return Variant(ranks=self.ranks[-1])

    def measure(self, bench: Bench, left_s: float | None) -> Sequence[VariantResult]:
        """All numbers in the same rounds. Raises PerfdoctorError for a script whose processes never join."""
        _check_joined(bench, self.ranks[-1])
        return bench.compare(self.variants, self.base)

    def complete(self, trial: Trial) -> Trial:
        """The trial with its curve."""
        cores = samplers.usable_cores()[0]
        points = curve(trial.originals, trial.verdicts, self.ranks, cores)
        most = trial.verdicts[-1].executions
        beyond = expected(points, trial.originals, most, cores)
        return replace(
            trial,
            base=self.base,
            scaling=points if beyond is None else (*points, beyond),
            rank_commands=rank_count.typed_commands(trial.command, self.ranks),
            notes=(*trial.notes, *self.warnings, *_uncounted(trial)),
        )


def curve(
    originals: Sequence[Execution], verdicts: Sequence[VariantResult], ranks: Sequence[int], cores: float
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
    cpu_s = median(each.cpu_s or 0.0 for each in most if each.ending is ExecutionEnd.MEASURED) / last.ranks
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
    measured = last.speedup  # no more is known of more ranks than of those measured
    gain = Gain(worst * measured.low / measured.likely, likely, best * measured.high / measured.likely)
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
    measured = ExecutionSummary.of(executions)
    return Scaled(ranks, measured.step_s, measured.samples_per_s)


def _over(gain: Gain, times: float) -> Gain:
    return Gain(gain.low / times, gain.likely / times, gain.high / times)


# ---------------------------------------------------------------- what bounds it


def _phases(executions: Sequence[Execution]) -> dict[str, float]:
    """Seconds of a step by cause, medians over rounds; empty where nothing was measured."""
    measured = [
        execution
        for execution in executions
        if execution.ending is ExecutionEnd.MEASURED and execution.phases
    ]
    if not measured:
        return {}
    names = (*dict.fromkeys(CAUSES.values()), REST)
    parts = [_by_cause(execution.phases) for execution in measured]
    return {name: median(part.get(name, 0.0) for part in parts) for name in names}


def _by_cause(phases: Mapping[str, float]) -> dict[str, float]:
    causes: dict[str, float] = {}
    for phase, seconds in phases.items():
        cause = CAUSES.get(phase, REST)
        causes[cause] = causes.get(cause, 0.0) + seconds
    return causes


def _bound(
    lost: Mapping[str, float],
    before_s: float,
    after_s: float,
    executions: Sequence[Execution],
    cores: float,
) -> Note:
    """What a step has become longer by, most of all."""
    if after_s - before_s < LITTLE * before_s:
        return Note("hardly-longer")
    cause = max(lost, key=lambda name: lost[name])
    share = {"share": lost[cause] / after_s}
    if cause == COMPUTING:
        return Note("computes-longer", {**share, "shared": _shared(executions, cores)})
    return Note(BOUNDS.get(cause, "python-takes-longer"), share)


def _shared(executions: Sequence[Execution], cores: float) -> Note:
    """What ranks that compute share."""
    if any(execution.device_bytes for execution in executions):
        return Note("counted-as-computing")
    wanted = [each.cpu_s / each.step_s for each in executions if each.cpu_s and each.step_s]
    if wanted and median(wanted) >= BUSY * cores:
        return Note("cores-needed", {"needed": median(wanted), "cores": cores})
    return Note("memory-shared")


# ---------------------------------------------------------------- what is said before, and checked


def _crowded(most: int) -> Iterator[Note]:
    """More ranks than there is room for."""
    gpus, cores = _gpus(), samplers.usable_cores()[0]
    if gpus and most > gpus:
        yield Note("more-ranks-than-gpus", {"ranks": most, "gpus": gpus})
    elif not gpus and most > cores:
        yield Note("more-ranks-than-cores", {"ranks": most, "cores": cores})


def _gpus() -> int:
    """Devices that commands started here can see."""
    sampler = devices.opened(Path(), os.environ)
    if sampler is None:
        return 0
    sampler.close()
    return len(sampler.devices)


def _threads(ranks: Sequence[int]) -> Iterator[Note]:
    """One rank alone computes with all cores, where torch's launcher gives each of several one thread."""
    if ranks[0] == 1 and THREADS not in os.environ and not _gpus():
        yield Note("threads-differ", {"variable": THREADS})


def _check_joined(bench: Bench, ranks: int) -> None:
    """Raise where the processes of the calibration run trained each for itself."""
    calibration = bench.calibration
    records = recorded.read(Path(calibration.log).with_suffix(""))
    if calibration.ranks < ranks:
        raise PerfdoctorError(
            f"of {ranks} ranks, {calibration.ranks} took steps that could be measured",
            f"their output is in {calibration.log}",
        )
    joined = any(rank.of("process_group") or rank.of("wrapper") for rank in records.ranks.values())
    if not joined:
        raise PerfdoctorError(
            f"the script cannot be scaled: {ranks} processes of it never called init_process_group",
            "make it use several processes first: perfdoctor tips data-parallel",
        )


def _uncounted(trial: Trial) -> Iterator[Note]:
    if not all(execution.samples_per_s for execution in trial.originals):
        yield Note("samples-unknown")
