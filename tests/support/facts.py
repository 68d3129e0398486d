"""Builders of facts, a line each, so that a test reads like a patient's chart. Times in milliseconds."""

from __future__ import annotations

from typing import Any

from perfdoctor.diagnosis.gains import gain_of
from perfdoctor.facts.device.device import (
    AttentionFacts,
    CopyFacts,
    DeviceFacts,
    KernelFacts,
    MatrixFacts,
    RoundTripFacts,
    WaitFacts,
)
from perfdoctor.facts.predict.step_model import StepModel, build
from perfdoctor.facts.ranks.gradient_sync import of_device, of_shown
from perfdoctor.facts.steps.events import EvalFacts, SaveFacts
from perfdoctor.model.concluded import Advice, Bottleneck, Gain
from perfdoctor.model.measured import (
    CpuFacts,
    LineCost,
    LoaderFacts,
    Location,
    Marker,
    Phase,
    RunFacts,
    StackFacts,
    StepFacts,
    ThreadFacts,
)
from perfdoctor.model.ranks import GradientSyncFacts, RankFacts, Straggler
from perfdoctor.trace.results import (
    AttentionUse,
    BlockingCalls,
    ClassUse,
    CopySite,
    CopyUse,
    DevicePeak,
    IdleCause,
    KernelClass,
    KernelUse,
    MatrixUse,
    RoundTrip,
    WorkUse,
)

LOADER_LINE = Location("train.py", 41, "main", "loader = DataLoader(data, batch_size=32)")


def run(**given: Any) -> RunFacts:
    """A run on the CPU that ended well."""
    return RunFacts(
        **{
            "id": "run",
            "command": ("train.py",),
            "exit_code": 0,
            "ranks": 1,
            "device": "cpu",
            "duration_s": 30.0,
            **given,
        }
    )


def step(count: int = 500, cpu: float | None = None, **phases: float) -> StepFacts:
    """A step of these phases: `step(data_wait=6, forward=4)`; `cpu` is the process's CPU time in it."""
    seconds = {Phase(name): ms / 1e3 for name, ms in phases.items()}
    mean_s = sum(seconds.values())
    return StepFacts(
        count=count,
        marker=Marker.UPDATE,
        mean_s=mean_s,
        median_s=mean_s,
        p95_s=mean_s,
        seconds=seconds,
        wall_s=mean_s * count,
        startup_s=1.0,
        tail_s=0.1,
        process_cpu_s=cpu / 1e3 if cpu is not None else None,
    )


def loader(
    workers: int = 0, batch: float = 6.0, cpu: float | None = None, p95: float | None = None, **given: Any
) -> LoaderFacts:
    """A loader whose batches cost `batch` ms, `cpu` of them on the CPU."""
    return LoaderFacts(
        **{
            "num_workers": workers,
            "batch_size": 32,
            "at": LOADER_LINE,
            "dataset": "train.Data",
            "iterable": False,
            "persistent_workers": False,
            "prefetch_factor": 2 if workers else None,
            "pin_memory": False,
            "start_method": "fork" if workers else None,
            "batches": 500,
            "batch_s": batch / 1e3,
            "batch_cpu_s": (batch if cpu is None else cpu) / 1e3,
            "batch_p50_s": batch / 1e3,
            "batch_p95_s": (batch if p95 is None else p95) / 1e3,
            "collate_s": 0.0,
            "collate_cpu_s": 0.0,
            "batch_bytes": None,
            "batches_per_step": 1.0,
            "epochs": 1,
            "epoch_start_s": None,
            "steady_wait_s": None,
            "worker_start_s": None,
            **given,
        }
    )


def cpu(cores: float = 8, busy: float | None = 1.0, **given: Any) -> CpuFacts:
    """`busy` of `cores` usable cores are busy."""
    return CpuFacts(
        **{"usable_cores": cores, "busy_cores": busy, "main_cores": busy, "worker_cores": 0.0, **given}
    )


def model(step: StepFacts, loader: LoaderFacts, cpu: CpuFacts) -> StepModel:
    """The step model of these facts."""
    built = build(step, loader, cpu)
    assert isinstance(built, StepModel)
    return built


def gain(advice: Advice | None, model: StepModel | None = None) -> Gain:
    """What the step model makes of an advice; without one, what is removed is simply gone."""
    assert advice is not None
    assert advice.change is not None
    return gain_of(model, [advice.change])


def line(
    share: float,
    number: int = 7,
    kind: str | None = None,
    samples: int = 100,
    text: str = "work()",
    function: str = "main",
    leaf: str | None = None,
    only_reported: bool = True,
) -> LineCost:
    """A user's line that takes `share`."""
    return LineCost(Location("train.py", number, function, text), share, samples, leaf, kind, only_reported)


def stacks(*other: LineCost) -> StackFacts:
    """Stack samples with these lines in phase `other`."""
    return StackFacts(1000, "py-spy", {Phase.OTHER: other})


def threads(
    intra_op: int = 4, set_by: str | None = None, module: float | None = 2.0, at: Location | None = None
) -> ThreadFacts:
    """torch's threads; a module's forward and backward takes `module` ms."""
    return ThreadFacts(intra_op, set_by, at, module / 1e3 if module is not None else None)


def evals(seconds: float = 0.0, grad: float = 0.0, calls: int = 100) -> EvalFacts:
    """Eval-mode passes of `seconds` ms per step, `grad` of them recording gradients."""
    return EvalFacts(
        calls, calls if grad else 0, seconds / 1e3, grad / 1e3, Location("train.py", 60, "validate", None)
    )


def saves(count: int = 5, each: float = 100.0, between: float = 100.0) -> SaveFacts:
    """`count` checkpoints of `each` ms, `between` steps apart."""
    return SaveFacts(
        count,
        each / 1e3 / between,
        4_000_000,
        Location("train.py", 70, "main", "torch.save(state, path)"),
        between,
        only_reported=True,
    )


# ---------------------------------------------------------------- of a trace: five steps of 100 ms


def device(
    exposed_comm: float = 0.0, exposed_copy: float = 0.0, comm: float | None = None, **idle: float
) -> DeviceFacts:
    """A device whose time goes into computing, but for these shares."""
    causes = {IdleCause(cause): share for cause, share in idle.items()}
    compute = max(0.0, 1.0 - exposed_comm - exposed_copy - sum(idle.values()))
    both = exposed_comm if comm is None else comm
    return DeviceFacts("Tesla V100", 0.5, 5, compute, exposed_comm, exposed_copy, causes, both)


def kernels(*uses: KernelUse, share: float = 1.0, work: tuple[WorkUse, ...] = ()) -> KernelFacts:
    """These kernels, together `share` of the time, in five steps."""
    total_us = sum(use.us for use in uses)
    classes: dict[KernelClass, float] = {}
    for use in uses:
        classes[use.kind] = classes.get(use.kind, 0.0) + use.us
    listed = tuple(ClassUse(kind, 1, us, None) for kind, us in classes.items())
    scale = share / total_us if total_us else 0.0
    return KernelFacts(listed, uses, scale, work, 5, scale)


def matrices(*uses: MatrixUse, share: float = 1.0, peak: DevicePeak | None = None) -> MatrixFacts:
    """These products, together `share` of the time."""
    total_us = sum(use.us for use in uses)
    return MatrixFacts(uses, share / total_us if total_us else 0.0, peak)


def copies(
    *uses: CopyUse,
    share: float = 0.2,
    at: tuple[Location, ...] = (),
    sites: tuple[CopySite, ...] = (),
    round_trips: tuple[RoundTrip, ...] = (),
) -> CopyFacts:
    """These copies in five steps, together `share` of the time and hidden by nothing."""
    total_us = sum(use.us for use in uses)
    trips = RoundTripFacts(round_trips, 5, 1 / 500_000)
    return CopyFacts(uses, share / total_us if total_us else 0.0, 5, at, sites, trips, 1 / 500_000)


def attention(
    *uses: AttentionUse, at: tuple[Location, ...] = (), unused_weights: bool = False
) -> AttentionFacts:
    """Attention written out, in 500 ms."""
    return AttentionFacts(uses, 1 / 500_000, at, unused_weights)


def waits(*calls: BlockingCalls, steps: int | None = 5) -> WaitFacts:
    """These waits in 500 ms."""
    return WaitFacts(calls, 500_000.0, steps)


def comm(exposed: float = 0.2, all: float = 0.5) -> GradientSyncFacts:
    """Communication in a trace of a device."""
    return of_device(device(exposed_comm=exposed, comm=all))


def exchange(**given: Any) -> GradientSyncFacts:
    """20 MB of gradients a step in one bucket among two ranks: 20 ms, of which 10 are hidden."""
    return GradientSyncFacts(
        **{
            "exposed": 0.1,
            "all": 0.2,
            "each_s": 0.010,
            "kind": "DistributedDataParallel",
            "ranks": 2,
            "exchanges": 1.0,
            "buckets": 1.0,
            "bytes": 20_000_000,
            "busy_s": 0.020,
            "moving_s": 0.020,
            "exposed_s": 0.010,
            "waiting_s": 0.0,
            "hidden": 0.5,
            "bus_bytes_per_s": 1e9,
            "at": Location("train.py", 22),
            **given,
        }
    )


def among(moving: float = 10.0, waiting: float = 0.0, mean: float = 100.0, **phases: float) -> RankFacts:
    """A rank whose step of `mean` ms has so much of exchange, and these phases besides."""
    seconds = {Phase(name): ms / 1e3 for name, ms in phases.items()}
    seconds[Phase.GRAD_SYNC] = (moving + waiting) / 1e3
    return RankFacts(0, "here", 400, mean / 1e3, seconds, waiting / 1e3, moving / 1e3)


def exchanged(
    moving: float = 10.0, waiting: float = 0.0, crowded: float = 0.0, **given: Any
) -> GradientSyncFacts:
    """Gradient sync in a run whose step takes 100 ms, `moving` of them exposed."""
    return of_shown(exchange(**given), among(moving, waiting), crowded / 1e3)


def straggler(
    rank: int = 3,
    waiting: float = 0.3,
    caused: float = 0.9,
    last: int = 90,
    matched: int = 100,
    excess: float = 10.0,
    saved: float | None = None,
    **given: Any,
) -> Straggler:
    """Eight ranks with steps of 100 ms, of which one comes late and computes `excess` ms longer."""
    excess_s, saved_s = excess / 1e3, saved * 0.1 if saved is not None else None
    times = {"saved_s": saved_s, "step_s": 0.1, "excess_s": excess_s}
    return Straggler(rank, 8, matched, last / matched, caused, waiting, Bottleneck.COMPUTE, **(times | given))
