"""Training on the CPU uses far fewer threads than there are cores, or far more.

## What it sees
Compute is most of the step, on the CPU; torch's intra-op threads were set to at most half of the usable cores
while cores idle and operations are large enough to be split, or torch runs more threads than there are usable
cores.

## By hand
    OMP_NUM_THREADS=8 python train.py        # or torch.set_num_threads(8)

## When not
Small operations are not worth splitting between threads: one thread may be best. Hyper-threads of one
core compute matrices no faster than one of them: whole cores are what counts. Several training processes on
one machine have to share its cores. Nor do more threads help than cores are free beside other programs: a
team waits for its last thread in every operation, and that one has to wait for a core.
"""

from __future__ import annotations

from perfdoctor.facts.predict.thread_speedup import LARGE_S, TOO_MANY, of_threads
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import CpuFacts, Phase, RunFacts, StepFacts, ThreadFacts
from perfdoctor.tips.catalogue import Checked, tip

MOSTLY_COMPUTE = 0.4  # of the step
IDLE = 0.7  # cores that idle: less may be a sampling error
YIELDED = 0.5  # of the cores that other processes keep busy is lost to ours: schedulers are fair
ROUNDED = 0.3  # cores: what is busy is sampled, and a little of it keeps no thread from its core


@tip(
    title="Use as many threads as there are cores",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    applies=("cpu",),
    checked=Checked.SCRIPTS,
)
def wrong_thread_count(run: RunFacts, step: StepFacts, threads: ThreadFacts, cpu: CpuFacts) -> Advice | None:
    """Advises as many threads as cores where compute on the CPU limits the step."""
    compute = sum(
        step.share(phase) for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.VALIDATION)
    )
    if run.device != "cpu" or run.ranks > 1 or compute < MOSTLY_COMPUTE or cpu.busy_cores is None:
        return None
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
            f"torch computes with {threads.intra_op} thread{'s' if threads.intra_op > 1 else ''}"
            + (f" ({threads.set_by})" if threads.set_by else ""),
            f"{what}; compute takes {compute:.0%} of the step",
        ),
        change=removes(low, likely, high),
        at=(threads.at,) if threads.at else (),
        tweak=f"--threads {advised}",
        same_result=False,  # sums are added in another order
        code=f"torch.set_num_threads({advised})",
    )


def _too_few(threads: ThreadFacts, cpu: CpuFacts, cores: int) -> bool:
    idle = cpu.usable_cores - (cpu.busy_cores or 0.0)
    large = threads.per_module_s is not None and threads.per_module_s >= LARGE_S
    return threads.set_by is not None and threads.intra_op * 2 <= cores and idle >= IDLE and large
