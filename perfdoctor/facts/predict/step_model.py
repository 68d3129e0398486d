"""Models a step: how long it takes when N workers prepare batches on shared cores.

Training and workers each have a demand: seconds alone, and CPU seconds. Running together they share the
usable cores; what is computing slows down by as much as more cores are asked for than there are, what
waits for a disk or a network does not. First the demands are taken out of the run as it was; then the
model puts the step together again, for the same number of workers (its error is reported) or another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from perfdoctor.facts.predict.batch_queue import EVEN, queue
from perfdoctor.facts.predict.contention import USUAL, CpuContention
from perfdoctor.model.change import Change
from perfdoctor.model.concluded import Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import PAUSES, CpuFacts, LoaderFacts, Phase, StepFacts
from perfdoctor.model.missing import Missing

BEST, LIKELY, WORST = 0, 1, 2
# A batch through queue and shared memory: costs its maker and its taker.
TRANSFER_S = (0.0003, 0.0010, 0.0015)
# Per worker, forked, once: new workers are advised to live on between epochs.
WORKER_START_S = (0.02, 0.05, 0.15)
# Where it is not forked, it imports torch and the script first, beside the others that do.
FRESH_START_S = (1.0, 2.5, 5.0)
FORK = "fork"
ROUNDS = 25  # of the damped fixed point, which settles within 20
UNEVEN = 1.5  # p95 over p50 from which batches are queued one by one
TRUSTED_ERROR = 0.10  # a model that misses the measured step by more widens what it says
# Of the cores other people's processes keep busy, ours would get if it asked: schedulers are fair.
YIELDED = 0.5
REMOVABLE = 0.95  # no change takes more than this out of a resource: a bound on gains, not a forecast
LEAST_LEFT = 0.3  # of the time that training took, whatever its threads waited for: those waits overlap
OUTRUN = 0.8  # workers this much faster than the step never keep it waiting: what wait is left is receiving


@dataclass(frozen=True)
class StepModel:
    """Demands of one step, each as if it ran alone, and what the model says of the run as it was."""

    step_s: float  # measured mean
    compute_s: float  # all but waiting for batches, and but pauses
    compute_cpu_s: float
    data_s: float  # preparing one step's batches in one process
    data_cpu_s: float
    batches: float  # per step
    spread: tuple[float, ...]  # batch costs over their mean, at even quantiles
    workers: int
    prefetch: int
    cores: float  # what usable ones are worth, less what other people's processes keep busy
    transfer_s: float = 0.0  # per step; what it is with workers, as far as this run tells
    epoch_s: float = 0.0  # waits at the starts and ends of epochs, per step
    epochs_per_step: float = 0.0
    # per step, of the one thread that pins the batches of all workers: at best, likely, at worst
    pinning_s: tuple[float, ...] = (0.0, 0.0, 0.0)
    starts_per_step: float = 0.0  # how often workers would start, over the steps seen
    start_s: tuple[float, float, float] = WORKER_START_S  # of one new worker
    goes_on: float = 1.0  # times the steps seen, over which training pays for starting workers that live on
    forked: bool = True  # one after the other; else they start side by side
    # validation, checkpoints, what the first step takes longer: workers fill their queue meanwhile, then wait
    pauses_s: float = 0.0
    fixed_s: float = 0.0  # waits for other loaders, for the sampler: no number of workers changes them
    modelled_s: float = 0.0
    main_s: float = 0.0  # of the measured step, what the training thread did not wait
    paused_s: float = 0.0  # of that, pauses
    contention_s: float = 0.0  # of that, what it lost because its threads had no core
    contention: CpuContention = USUAL

    @property
    def error(self) -> float:
        """(modelled - measured) / measured step time for the run as it was."""
        return (self.modelled_s - self.step_s) / self.step_s if self.step_s > 0 else 0.0

    def step_with(self, workers: int, case: int = LIKELY) -> float:
        """Modelled seconds of a step with that many workers."""
        if workers == 0:
            return self.compute_s + self.data_s + self._apart_s + self._epoch_starts(0, case)
        transfer_s = self.transfer_s if self.workers else TRANSFER_S[case] * self.batches
        step_s = max(self.compute_s, self.data_s / workers) + transfer_s
        for _ in range(ROUNDS):
            compute_s, data_s = self.together(workers, step_s, case)
            slower_s = self.slower(compute_s + transfer_s, data_s + transfer_s, workers, case)
            step_s = (step_s + slower_s) / 2
        # no arrangement does the CPU work of a step in less than all cores need for it
        at_least_s = (self.compute_cpu_s + self.data_cpu_s) / self.cores
        return max(step_s, at_least_s) + self._apart_s + self._epoch_starts(workers, case)

    @property
    def paced_s(self) -> float:
        """Of the measured step, what the slower of computing and preparing takes."""
        return max(0.0, self.step_s - self.epoch_s - self.fixed_s - self.pauses_s)

    @property
    def _apart_s(self) -> float:
        """What no number of workers hides or shortens."""
        return self.fixed_s + self.pauses_s

    def gain(self, *changes: Change) -> Gain:
        """The speedup of the whole step with these changes made together."""
        return self.gain_to(lambda case: self.step_after(changes, case))

    def gain_to(self, step_s: Callable[[int], float]) -> Gain:
        """The speedup where a step then takes `step_s(case)` seconds."""
        doubt = 1.0 + max(0.0, abs(self.error) - TRUSTED_ERROR)
        low, likely, high = sorted(
            self.step_with(self.workers, case) / step_s(case) for case in (WORST, LIKELY, BEST)
        )
        return Gain(low / doubt, likely, high * doubt)

    def step_after(self, changes: Sequence[Change], case: int = LIKELY) -> float:
        """Modelled seconds of a step with these changes made; of two worker counts, the larger is taken."""
        workers = [change.workers for change in changes if change.workers is not None]
        return self.after(changes, case).step_with(max(workers, default=self.workers), case)

    def after(self, changes: Sequence[Change], case: int = LIKELY) -> StepModel:
        """The demands with these changes made, the number of workers left as it is."""
        moved_s, gone_s, shorter_s = (
            self.step_s * sum(getattr(change, name).at(case) for change in changes)
            for name in ("moved", "step", "pauses")
        )
        kept, kept_of_pauses = self._kept(moved_s + gone_s, shorter_s)
        lighter, quicker = (
            math.prod(1.0 - min(REMOVABLE, share.at(case)) for share in shares)
            for shares in ([change.batch for change in changes], [change.handed for change in changes])
        )
        # the same starts, whoever advises that workers live on
        starts_s = max((change.starts.at(case) for change in changes), default=0.0) * self.step_s
        others_s = sum(change.others.at(case) for change in changes) * self.step_s
        prefetch = [change.prefetch for change in changes if change.prefetch is not None]
        return replace(
            self,
            compute_s=self.compute_s * kept,
            compute_cpu_s=self.compute_cpu_s * kept,
            pauses_s=self.pauses_s * kept_of_pauses,
            data_s=(self.data_s + moved_s) * lighter,
            data_cpu_s=(self.data_cpu_s + moved_s) * lighter,
            pinning_s=tuple(each_s * quicker for each_s in self.pinning_s),
            transfer_s=self.transfer_s * quicker,
            batches=self.batches or float(moved_s > 0),
            epoch_s=max(0.0, self.epoch_s - starts_s),
            fixed_s=max(0.0, self.fixed_s - others_s),
            prefetch=max(prefetch, default=self.prefetch),
        )

    def _kept(self, gone_s: float, shorter_s: float) -> tuple[float, float]:
        """What is left of computing, and of pauses, as shares; what one has not goes from the other."""
        computing_s = self.main_s - self.paused_s
        paused_s = min(shorter_s + max(0.0, gone_s - REMOVABLE * computing_s), REMOVABLE * self.paused_s)
        computed_s = min(gone_s + shorter_s - paused_s, REMOVABLE * computing_s)
        return 1.0 - _ratio(computed_s, computing_s), 1.0 - _ratio(paused_s, self.paused_s)

    def knee(self, most: int, worthwhile: float) -> int:
        """The smallest number of workers that comes within `worthwhile` of the best step."""
        times_s = [self.step_with(count) for count in range(1, max(1, most) + 1)]
        return next(n for n, step_s in enumerate(times_s, 1) if step_s <= min(times_s) * (1 + worthwhile))

    def together(self, workers: int, step_s: float, case: int = LIKELY) -> tuple[float, float]:
        """Compute and batch cost side by side in a step of `step_s`: CPU parts stretch where cores lack.

        Each stretches by its loss (`contention`) times how far both at once ask for more cores than there
        are, for the share of the step in which the other one is at it. Workers are busy independently of each
        other: that several are at once is rarer than that one is.
        """
        if step_s <= 0:
            return self.compute_s, self.data_s
        main = min(self.cores, _ratio(self.compute_cpu_s, self.compute_s))
        worker = min(1.0, _ratio(self.data_cpu_s, self.data_s))
        training = min(1.0, self.compute_s / step_s)
        preparing = min(1.0, self.data_s / (workers * step_s))
        lacking = self._lacking(main + worker, worker, workers - 1, preparing) * training
        data_s = self.data_s * (1 + lacking * self.contention.worker[case] * worker)
        preparing = min(1.0, data_s / (workers * step_s))
        lacking = self._lacking(main, worker, workers, preparing)
        return self.compute_s * (1 + lacking * self.contention.compute[case] * min(1.0, main)), data_s

    def _lacking(self, busy: float, worker: float, workers: int, preparing: float) -> float:
        """Cores lacking, in the mean, per core there is: beside `busy` cores, each worker is at it or not."""
        if busy + workers * worker <= self.cores:
            return 0.0
        return sum(
            math.comb(workers, at_it)
            * preparing**at_it
            * (1 - preparing) ** (workers - at_it)
            * max(0.0, (busy + at_it * worker) / self.cores - 1)
            for at_it in range(workers + 1)
        )

    def slower(self, compute_s: float, data_s: float, workers: int, case: int = LIKELY) -> float:
        """The slower of computing and preparing; no batch passes faster than one thread pins it."""
        if self.spread == EVEN:
            return max(compute_s, data_s / workers, self.pinning_s[case])
        return max(queue(compute_s, data_s, self.spread, workers, self.prefetch), self.pinning_s[case])

    def _epoch_starts(self, workers: int, case: int) -> float:
        """Waits at epoch starts, seconds per step: the first batch, and starting the workers.

        As many workers as there are cores start side by side; having fewer is not credited with what it costs
        to start them at every epoch: not restarting them is the cure.
        """
        first_batches_s = self.epochs_per_step * _ratio(self.data_s, self.batches)
        if not self.workers:
            at_once = workers if self.forked else max(1.0, workers / self.cores) if workers else 0.0
            # a training that was to go on may do so for so long that it pays next to nothing
            often = 0.0 if case == BEST and self.goes_on > 1 else self.starts_per_step / self.goes_on
            return (first_batches_s if workers else 0.0) + often * self.start_s[case] * at_once
        first_batches_s = min(first_batches_s, self.epoch_s)
        least = min(self.workers, math.ceil(self.cores))
        return first_batches_s + (self.epoch_s - first_batches_s) * max(least, workers) / self.workers


def _free(cpu: CpuFacts) -> float:
    return max(min(1.0, cpu.worth_cores), cpu.worth_cores - (1 - YIELDED) * cpu.worth(cpu.other_cores or 0.0))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def build(
    step: StepFacts,
    loader: LoaderFacts,
    cpu: CpuFacts,
    contention: CpuContention = USUAL,
    pins: tuple[float, float, float] = (0.0, 0.0, 0.0),
    handing_s: float = 0.0,  # of a step, for which batches on their way from workers are waited for
) -> StepModel | Missing:
    """The model of this run. `pins`: share of the time in which the thread that pins is at work."""
    if step.mean_s <= 0 or loader.batches_per_step <= 0 or loader.batch_s <= 0:
        return Missing("the cost of a batch was not measured")
    data_s = loader.batch_s * loader.batches_per_step
    data_cpu_s = loader.batch_cpu_s * loader.batches_per_step
    main_s = max(0.0, step.mean_s - step.seconds.get(Phase.DATA_WAIT, 0.0))
    first_s = step.mean_s - step.usual_s
    pauses_s = min(main_s, first_s + sum(step.seconds.get(phase, 0.0) for phase in PAUSES))
    process_cpu_s = step.process_cpu_s if step.process_cpu_s is not None else main_s
    cores = _free(cpu)
    in_main_s = loader.others_cpu_s + (0.0 if loader.num_workers else data_cpu_s)
    main_cpu_s = min(max(0.0, process_cpu_s - in_main_s), main_s * cores)
    pauses_cpu_s = main_cpu_s * _ratio(pauses_s, main_s)
    forked = loader.start_method in (None, FORK)
    seen = StepModel(
        step_s=step.mean_s,
        compute_s=main_s - pauses_s,
        compute_cpu_s=main_cpu_s - pauses_cpu_s,
        main_s=main_s,
        paused_s=pauses_s,
        data_s=data_s,
        data_cpu_s=min(data_cpu_s, data_s),
        batches=loader.batches_per_step,
        spread=loader.spread if loader.batch_p95_s >= UNEVEN * loader.batch_p50_s else EVEN,
        workers=loader.num_workers,
        prefetch=max(1, loader.prefetch_factor or 2),
        cores=cores,
        epoch_s=_epochs_s(step, loader) if loader.num_workers else 0.0,
        epochs_per_step=loader.epochs / max(1, step.count),
        starts_per_step=loader.built / max(1, step.count),
        start_s=WORKER_START_S if forked else FRESH_START_S,
        forked=forked,
        pauses_s=pauses_s,
        fixed_s=max(0.0, loader.others_wait_s - (loader.others_restart_s if loader.num_workers else 0.0)),
        contention=contention,
    )
    # more CPU seconds than the cores have: batches prepared ahead, or a clock read late
    given_s = max(0.0, cores * step.mean_s - pauses_cpu_s)
    fit = min(1.0, _ratio(given_s, seen.compute_cpu_s + seen.data_cpu_s) or 1.0)
    seen = replace(seen, compute_cpu_s=seen.compute_cpu_s * fit, data_cpu_s=seen.data_cpu_s * fit)
    if not seen.workers:
        # choosing the samples stays in the training process; so does, in this model, what pins memory
        seen = replace(seen, fixed_s=max(seen.fixed_s, step.seconds.get(Phase.DATA_WAIT, 0.0) - seen.data_s))
        return replace(_without_crowd(seen, cpu), modelled_s=seen.step_with(0))
    lost_s = None
    # it is at work beside the first batches and pauses, too, when no step waits for it
    seen = replace(seen, pinning_s=tuple(min(busy * seen.step_s, seen.paced_s) for busy in pins))
    if cpu.worker_delay is not None and cpu.main_delay is not None:
        lost_s = cpu.main_delay * step.mean_s, cpu.worker_delay * seen.data_cpu_s
    return _calibrated(seen, lost_s, handing_s)


def _epochs_s(step: StepFacts, loader: LoaderFacts) -> float:
    """Waits at the starts of epochs, and at their ends for workers to stop, in seconds per step.

    Of other loaders, what starts and stops their workers. The last epoch ends after the last step.
    """
    ends_s = (loader.epoch_end_s or 0.0) * max(0, loader.epochs - 1) / max(1, step.count)
    return loader.epoch_wait_s + ends_s + loader.others_restart_s


def of_loop(step: StepFacts, cpu: CpuFacts, contention: CpuContention = USUAL) -> StepModel:
    """The model of a loop without a DataLoader: all of its step is the training thread's own."""
    cores = _free(cpu)
    process_cpu_s = step.process_cpu_s if step.process_cpu_s is not None else step.mean_s
    return StepModel(
        step_s=step.mean_s,
        compute_s=step.mean_s,
        compute_cpu_s=min(process_cpu_s, step.mean_s * cores),
        main_s=step.mean_s,
        data_s=0.0,
        data_cpu_s=0.0,
        batches=0.0,
        spread=EVEN,
        workers=0,
        prefetch=2,
        cores=cores,
        modelled_s=step.mean_s,
        contention=contention,
    )


def _calibrated(seen: StepModel, lost_s: tuple[float, float] | None, handing_s: float) -> StepModel:
    """The demands as if each ran alone, and the step put together from what was seen as it ran.

    `lost_s`: how long the threads of the training process and the makers of a step's batches were ready but
    had no core, where that was measured.
    """
    usual_s = TRANSFER_S[LIKELY] * seen.batches
    pace_s = seen.slower(seen.compute_s, seen.data_s, seen.workers)
    missing_s = max(0.0, seen.paced_s - pace_s)
    late = seen.data_s > OUTRUN * seen.compute_s * seen.workers
    # where the wait is for the workers, each of them hands over while the others prepare
    most_s = max(3 * usual_s, handing_s)
    transfer_s = min(missing_s * seen.workers, usual_s) if late else min(missing_s, most_s)
    pace_s = seen.slower(seen.compute_s + transfer_s, seen.data_s + transfer_s, seen.workers)
    modelled_s = pace_s + seen.epoch_s + seen.fixed_s + seen.pauses_s
    alone = _alone(seen) if lost_s is None else _without_contention(seen, *lost_s)
    return replace(alone, transfer_s=transfer_s, modelled_s=modelled_s)


def _without_crowd(seen: StepModel, cpu: CpuFacts) -> StepModel:
    """The demands of a training without workers, less the time for which other programs had its cores.

    While it wants a core, it lacks one as often in a batch as in computing; what is left of a batch is no CPU
    time, and no lack of cores, waits for a disk or a network.
    """
    if not (cpu.crowded and cpu.main_delay and cpu.main_cores):
        return seen
    lacked = cpu.main_delay / cpu.main_cores  # for each second that it ran
    # a team's threads run, and lack cores, at the same time; what waits for a device lacks none
    lost_s = min(lacked * seen.compute_cpu_s, seen.compute_s * lacked / (1 + lacked))
    alone_s = max(seen.compute_s - lost_s, seen.compute_s * LEAST_LEFT, seen.compute_cpu_s / seen.cores)
    alone_s = min(seen.compute_s, alone_s)
    return replace(
        seen,
        compute_s=alone_s,
        pauses_s=seen.pauses_s * (_ratio(alone_s, seen.compute_s) or 1.0),
        data_s=max(seen.data_cpu_s, seen.data_s - lacked * seen.data_cpu_s),
    )


def _without_contention(seen: StepModel, main_lost_s: float, data_lost_s: float) -> StepModel:
    """The demands without the time for which cores were missing, and what each loses to the other by it."""
    # workers hold cores for no longer than they run; threads of a team that lack cores at once wait once
    main_lost_s = min(main_lost_s / _lacking_at_once(seen), seen.data_cpu_s)
    # what the others of its team spin for, while one thread has no core, is CPU time that training alone
    # does not need
    spun_s = main_lost_s * (1 - 1 / seen.contention.threads)
    compute_cpu_s = max(seen.compute_cpu_s - spun_s, seen.compute_cpu_s * LEAST_LEFT)
    # neither can be less than its CPU seconds need on the cores it can use
    compute_s = max(compute_cpu_s / seen.cores, seen.compute_s - main_lost_s, seen.compute_s * LEAST_LEFT)
    data_s = max(seen.data_cpu_s, seen.data_s - data_lost_s)
    alone = replace(
        seen,
        compute_s=compute_s,
        compute_cpu_s=compute_cpu_s,
        data_s=data_s,
        contention_s=seen.compute_s - compute_s,
    )
    unit = replace(alone, contention=CpuContention((1.0,) * 3, (1.0,) * 3))
    _, stretched_s = unit.together(seen.workers, seen.step_s - seen.pauses_s)
    worker = _ratio(seen.data_s - data_s, stretched_s - data_s)
    unit = replace(unit, contention=CpuContention((1.0,) * 3, (worker,) * 3))
    stretched_s, _ = unit.together(seen.workers, seen.step_s - seen.pauses_s)
    compute = _ratio(seen.compute_s - compute_s, stretched_s - compute_s)
    return replace(alone, contention=alone.contention.seen(compute, worker))


def _lacking_at_once(seen: StepModel) -> float:
    """How many threads of the team that trains lack a core when one of them does."""
    busy = min(seen.workers, _ratio(seen.data_cpu_s, seen.step_s - seen.pauses_s))
    return max(1.0, min(seen.contention.threads, seen.contention.threads + busy - seen.cores))


def _alone(seen: StepModel) -> StepModel:
    """Take the contention out of demands that were measured while they ran together."""
    alone = seen
    for _ in range(ROUNDS):
        compute_s, data_s = alone.together(seen.workers, seen.step_s - seen.pauses_s)
        alone = replace(
            alone,
            # neither can be less than its CPU seconds need on the cores it can use
            compute_s=max(
                alone.compute_cpu_s / alone.cores, alone.compute_s * _ratio(seen.compute_s, compute_s)
            ),
            data_s=max(alone.data_cpu_s, alone.data_s * _ratio(seen.data_s, data_s)),
        )
    return replace(alone, contention_s=seen.compute_s - alone.compute_s)
