"""Training on the CPU uses far fewer threads than there are cores, or more than have a core to themselves.

## What it sees
Compute is most of the step, on the CPU, and one of these:

- torch's intra-op threads were set to at most half of the usable cores while cores idle and operations are
  large enough to be split;
- torch runs more threads than there are usable cores;
- other programs, other ranks or loader workers have cores that its threads need: these were ready to run
  and had none. Each operation ends with its last thread, and those that wait for it spin on their cores. So
  beside busy programs a step can take several times as long with two threads as with one.

## By hand
    OMP_NUM_THREADS=8 python train.py        # or torch.set_num_threads(8)

Beside other programs the cause is their load: end it, run it at another time, or give training and it cores
of their own (`taskset`, a container with a CPU set). Until then, compute with as many threads as cores are
left. Of ranks that share a machine each takes its part of the cores; torchrun sets one thread for each where
nothing else is set, `mp.spawn` sets none.

## When not
Small operations are not worth splitting between threads: one thread may be best. Hyper-threads of one
core compute matrices no faster than one of them: whole cores are what counts. Several training processes on
one machine have to share its cores. Nor do more threads help than cores are free beside other programs: a
team waits for its last thread in every operation, and that one has to wait for a core. Fewer threads than
cores are wrong again as soon as the other load is gone.
"""

from __future__ import annotations

from perfdoctor.facts.host.rank_cores import RankCores
from perfdoctor.facts.predict.thread_speedup import LARGE_S, TOO_MANY, of_threads
from perfdoctor.facts.predict.thread_team import ROUNDED, ThreadTeam
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import CpuFacts, Phase, RunFacts, StepFacts, ThreadFacts
from perfdoctor.model.units import count as count_of
from perfdoctor.tips.catalogue import Checked, tip

MOSTLY_COMPUTE = 0.4  # of the step
IDLE = 0.7  # cores that idle: less may be a sampling error
YIELDED = 0.5  # of the cores that other processes keep busy is lost to ours: schedulers are fair
MEANWHILE = "  # while others have the cores"
ENOUGH = 1.10  # a likely gain below it is not worth a setting that is wrong once the other load is gone
NO_LOSS = 0.9  # of the speed, at least: a setting that may cost more beside a light load is not advised


@tip(
    title="Use as many threads as there are free cores",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    applies=("cpu",),
    checked=Checked.SCRIPTS,
)
def wrong_thread_count(
    run: RunFacts, step: StepFacts, threads: ThreadFacts, cpu: CpuFacts, team: ThreadTeam
) -> Advice | None:
    """Advises as many threads as have cores where compute on the CPU limits the step."""
    compute = sum(
        step.share(phase) for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.VALIDATION)
    )
    if run.device != "cpu" or compute < MOSTLY_COMPUTE or cpu.busy_cores is None:
        return None
    if team.is_held_up:
        return _fewer(threads, cpu, team, compute)
    if team.teams > 1:
        return None
    if run.ranks > 1:
        cpu = RankCores(team.cores, 1).each(cpu)  # bound to cores of its own
    whole = cpu.whole_cores or cpu.usable_cores  # hyper-threads share the units that compute
    others = (cpu.other_cores or 0.0) * whole / cpu.usable_cores
    left = whole - (cpu.worker_cores or 0.0)  # the workers keep theirs
    cores = int(left - others + ROUNDED)  # a team of threads waits for the one that has no core
    usable = f"{cpu.usable_cores:g} usable cores"
    if threads.intra_op >= TOO_MANY * cpu.usable_cores:
        beside = others > ROUNDED
        advised = max(1, int(whole - others + ROUNDED) if beside else int(whole))
        effective = min(whole, advised) if beside else whole
        what = f"{threads.intra_op} threads compete for {usable}"
    elif _too_few(threads, cpu, cores):
        advised = cores
        effective = max(threads.intra_op, min(cores, int(left + ROUNDED) - YIELDED * others))
        what = f"it keeps {cpu.busy_cores:.1f} of {usable} busy"
    else:
        return None
    if whole < cpu.usable_cores:
        what += f", which are hyper-threads of {whole:g} whole cores"
    speedups = of_threads(threads.intra_op, effective, effective, threads.per_module_s)
    if others > ROUNDED:
        what += f"; other programs keep {cpu.other_cores:.1f} busy"
    low, likely, high = (compute * (1 - 1 / speedup) for speedup in speedups)
    return Advice(
        because=(
            f"torch computes with {count_of(threads.intra_op, 'thread')}"
            + (f" ({threads.set_by})" if threads.set_by else ""),
            f"{what}; compute takes {compute:.0%} of the step",
        ),
        change=removes(low, likely, high),
        at=(threads.at,) if threads.at else (),
        tweak=f"--threads {advised}",
        same_result=False,  # sums are added in another order
        code=f"torch.set_num_threads({advised})",
    )


def _fewer(threads: ThreadFacts, cpu: CpuFacts, team: ThreadTeam, compute: float) -> Advice | None:
    """Advises no more threads than have a core beside what holds the others."""
    advised = team.fitting
    speedups = team.speedups(advised)
    low, likely, high = (compute * (1 - 1 / speedup) for speedup in speedups)
    if 1 / (1 - likely) < ENOUGH or speedups[0] < NO_LOSS:
        return None
    usable, count = f"{team.cores:g} usable cores", threads.intra_op
    set_by = f" ({threads.set_by})" if threads.set_by else ""
    keeping = (("other programs", cpu.other_cores), ("loader workers", cpu.worker_cores))
    busy = " and ".join(f"{who} keep {cores:.1f} busy" for who, cores in keeping if cores and cores > ROUNDED)
    if team.teams > 1:
        have = f"{team.teams} ranks compute with {count} threads each{set_by} on {usable}"
        cause = f"with {count_of(advised, 'thread')} in each rank fewer wait for each other"
    else:
        have = f"torch computes with {count_of(count, 'thread')}{set_by} on {usable}"
        cause = f"that load is the cause: without it {count} threads are right, beside it fewer lose less"
    busy = busy or (f"other processes keep {team.rivals:.1f} busy" if team.rivals > ROUNDED else "")
    lacked = f"its threads were ready but had no core for {team.lacked or 0.0:.1f} s of each second"
    return Advice(
        because=(
            f"{have}; {busy}" if busy else have,
            f"{lacked}, and each operation waits for its last one; compute takes {compute:.0%} of the step",
            cause,
        ),
        change=removes(low, likely, high),
        at=(threads.at,) if threads.at else (),
        tweak=f"--threads {advised}",
        same_result=False,  # sums are added in another order
        code=f"torch.set_num_threads({advised})" + ("" if team.teams > 1 else MEANWHILE),
    )


def _too_few(threads: ThreadFacts, cpu: CpuFacts, cores: int) -> bool:
    idle = cpu.usable_cores - (cpu.busy_cores or 0.0)
    large = threads.per_module_s is not None and threads.per_module_s >= LARGE_S
    return threads.set_by is not None and threads.intra_op * 2 <= cores and idle >= IDLE and large
