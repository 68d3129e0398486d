"""Tells how much of training computes in float64, and what float32 would take out of it: DoublePrecision."""

from __future__ import annotations

from perfdoctor.facts.device.device import NOT_COMPUTE, KernelFacts
from perfdoctor.facts.device.rooflines import UNKNOWN, NarrowedDoubles, Shares
from perfdoctor.facts.predict.thread_speedup import LARGE_S
from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.model_and_optimizers import ModelFacts
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase, RunFacts, StepFacts, ThreadFacts

# Of computing. On a CPU half as many numbers fit into a register and into a cache line: of large operations
# half the time goes, while of small ones what it costs to call them stays.
ON_CPU, ON_CPU_SMALL = (0.2, 0.45, 0.5), (0.05, 0.2, 0.5)


@dataclass(frozen=True)
class DoublePrecision:
    """What is known of numbers in double precision. A trace shows a device's kernels and no parameters."""

    share: float  # of the parameters; of a trace, of the time of the kernels that compute
    computing: float  # share of the step that computing takes
    gone: Shares  # of the step, computing in single precision
    parameters: int | None = None  # of the model, None in a trace
    at: Location | None = None  # the line that constructs the model
    widened: tuple[tuple[str, Location], ...] = ()  # what brings double precision in, and where


@fact
def double_precision(
    run: RunFacts, step: StepFacts, model: ModelFacts, threads: ThreadFacts, narrowed: NarrowedDoubles
) -> DoublePrecision:
    """Of the model that a run trains."""
    computing = sum(step.share(phase) for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER))
    low, likely, high = (computing * gone for gone in _of_computing(run, threads))
    gone = narrowed.gone or (low, likely, high)
    return DoublePrecision(model.float64, computing, gone, model.parameters, model.at, model.widened)


def of_kernels(kernels: KernelFacts, narrowed: NarrowedDoubles) -> DoublePrecision | None:
    """Of what a trace alone shows of a device; None where no kernel is known to compute in float64."""
    computing = [use for use in kernels.kernels if use.kind not in NOT_COMPUTE]
    all_us = sum(use.us for use in computing)
    wide_us = sum(use.us for use in computing if use.dtype == "float64")
    if wide_us <= 0:
        return None
    low, likely, high = (kernels.scale * wide_us * gone for gone in UNKNOWN)
    return DoublePrecision(
        wide_us / all_us, min(1.0, kernels.scale * all_us), narrowed.gone or (low, likely, high)
    )


def _of_computing(run: RunFacts, threads: ThreadFacts) -> Shares:
    """The share of computing that float32 saves where nothing was measured: at worst, likely and at best."""
    if run.device != "cpu":
        return UNKNOWN
    small = threads.per_module_s is None or threads.per_module_s < LARGE_S
    return ON_CPU_SMALL if small else ON_CPU
