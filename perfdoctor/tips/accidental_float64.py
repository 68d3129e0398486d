"""The model computes in double precision, often because NumPy's default type leaked in.

## What it sees
Most of the model's parameters are float64, and computing takes a large part of the step. The report names the
lines that introduce double precision, as far as the calls or the text of the script show them.

## By hand
    torch.from_numpy(array).float()        # NumPy creates float64 by default
    np.zeros(n, dtype=np.float32)
    model.float()

## When not
Where double precision is intended: solvers, Gaussian processes, gradient checks.
"""

from __future__ import annotations

from perfdoctor.facts.device.rooflines import UNKNOWN, NarrowedDoubles
from perfdoctor.facts.predict.thread_speedup import LARGE_S
from perfdoctor.facts.script.model_and_optimizers import ModelFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Phase, RunFacts, StepFacts, ThreadFacts
from perfdoctor.tips.catalogue import Checked, tip

MOSTLY = 0.5  # of the parameters
NOTICEABLE = 0.10  # share of the step that computes
# Of computing. On a CPU half as many numbers fit into a register and into a cache line: of large operations
# half the time goes, while of small ones what it costs to call them stays.
ON_CPU, ON_CPU_SMALL = (0.2, 0.45, 0.5), (0.05, 0.2, 0.5)
LINES = 3


@tip(
    title="Compute in single precision",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    saves=("time", "memory"),
    checked=Checked.SCRIPTS,
    kernels_only=True,
)
def accidental_float64(
    run: RunFacts, step: StepFacts, model: ModelFacts, threads: ThreadFacts, doubles: NarrowedDoubles
) -> Advice | None:
    """Advises float32 where computing in float64 takes a large part of the step."""
    compute = sum(step.share(phase) for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER))
    if model.float64 < MOSTLY or compute < NOTICEABLE:
        return None
    because = [
        f"{model.float64:.0%} of {model.parameters:,} parameters are float64",
        f"computing is {compute:.0%} of the step",
    ]
    because += [f"line {at.line}: {what}" for what, at in model.widened[:LINES]]
    low, likely, high = doubles.gone or (compute * gone for gone in _gone(run, threads))
    places = tuple(at for _, at in model.widened[:LINES]) or ((model.at,) if model.at else ())
    return Advice(
        because=tuple(because),
        change=removes(low, likely, high),
        at=places,
        tweak="--float32" if model.float64 == 1.0 else None,  # of several types, they may be meant
        same_result=False,
        code="torch.from_numpy(array).float()\nmodel.float()",
    )


def _gone(run: RunFacts, threads: ThreadFacts) -> tuple[float, float, float]:
    """The share of computing that float32 saves: at worst, likely and at best."""
    if run.device != "cpu":
        return UNKNOWN
    small = threads.per_module_s is None or threads.per_module_s < LARGE_S
    return ON_CPU_SMALL if small else ON_CPU
