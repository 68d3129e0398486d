"""The optimizer updates tensor by tensor, with several passes over memory for each.

## What it sees
The update takes a large share of the step, torch's own optimizer updates its parameters one by one (its
default on a CPU) or group by group, although it has a fused implementation for this device, and a noticeable
share of the step would go with it. What `step()` itself costs stays, and so does the one pass of plain SGD.
On a device the update is what its kernels take: the host waits there for what was launched before.
Where little would go, it is told as a matter of choice.

## By hand
    torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

## When not
Optimizers without a fused implementation; sparse gradients; `differentiable=True`. Sums are rounded in
another order: the last digits of the loss differ.
"""

from __future__ import annotations

from perfdoctor.facts.script.model_and_optimizers import Optimizer, OptimizerFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import Checked, tip

# Share of the step that would go; torch updates one by one on a CPU by default: less is no fault of a script.
LARGE = 0.15
NOTICEABLE = 0.08  # less is not even a choice
# Passes over memory for each element, one way and fused, counted in torch.optim's text. Adam by tensors:
# lerp_ 3, mul_ and addcmul_ 5, sqrt, division and eps 6, addcdiv_ 4; fused it reads four and writes three.
PASSES = {"Adam": (18, 7), "AdamW": (20, 7), "Adagrad": (11, 5)}
SGD, SGD_WITH_MOMENTUM = (3, 3), (8, 5)
# Operators for each tensor, counted likewise; fused there is one for all.
OPERATORS = {"Adam": 10, "AdamW": 11, "Adagrad": 7}
OPERATORS_OF_SGD, OPERATORS_WITH_MOMENTUM = 1, 3
# What step() takes whatever it updates: hooks, groups, state. Plain SGD of four tensors takes 32 us in all.
STEP_S = (50e-6, 30e-6, 20e-6)
BYTES = 4  # of an element
BYTES_PER_S = 10e9  # one core streams about so much from memory; caches make it more
DISPATCH_GONE = (0.5, 0.85, 0.95)  # of launching a dozen operations for each tensor: one is left for all
MEMORY_GONE = (0.5, 1.0, 1.3)  # times what the count of passes says: caches hold small models
FOREACH_GONE = (0.1, 0.3, 0.6)  # on a device, of grouped launches: the passes stay several


@tip(
    title="Use the fused optimizer",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.FLAG,
    checked=Checked.SCRIPTS,
)
def unfused_optimizer(step: StepFacts, optimizers: OptimizerFacts) -> Advice | None:
    """Advises fused=True where the update takes a noticeable share and can be fused."""
    share = optimizers.share(step)
    fusable = [one for one in optimizers.optimizers if one.fusable]
    if not fusable or share < NOTICEABLE:
        return None
    part = sum(one.elements for one in fusable) / max(1, sum(one.elements for one in optimizers.optimizers))
    what = f"{share:.1%} of the step is the update"
    by_size = sorted(fusable, key=lambda one: -one.elements)
    first = by_size[0]
    low, likely, high = (share * part * gone for gone in _gone(first, share * step.mean_s))
    if first.way == "for-loop" and likely < NOTICEABLE:
        return None
    tensors, elements = (sum(getattr(one, name) for one in fusable) for name in ("tensors", "elements"))
    by = f"{first.kind} ({first.way})"
    if len(fusable) > 1:
        by = f"{len(fusable)} optimizers, the largest of them {by}"
    return Advice(
        because=(
            f"{what} of {tensors:,} tensors by {by}",
            f"{elements:,} elements, {elements / max(1, tensors):,.0f} per tensor",
        ),
        change=removes(low if optimizers.is_sure else 0.0, likely, high),
        at=tuple(one.constructed_at for one in by_size if one.constructed_at),
        tweak="--fused-optimizer",
        same_result=False,
        code=f"torch.optim.{first.kind}(..., fused=True)",
        arguments=_arguments(first),
        bottleneck=Bottleneck.HOST if optimizers.is_launching(step) else None,
        takes=share * part,
        is_choice=share < LARGE or (first.way == "for-loop" and likely < LARGE),
    )


def _arguments(one: Optimizer) -> str | None:
    """For a trainer, where the line that has it train also constructs the optimizer; it fuses AdamW alone."""
    by_trainer = one.at is not None and one.constructed_at == one.at
    return 'optim="adamw_torch_fused"' if by_trainer and one.kind == "AdamW" else None


def _gone(one: Optimizer, update_s: float) -> tuple[float, float, float]:
    """Shares of the update that fusing saves: of launches, and of memory traffic."""
    if one.way == "foreach":
        return FOREACH_GONE
    passes, fused = PASSES.get(one.kind) or (SGD_WITH_MOMENTUM if one.momentum else SGD)
    operators = OPERATORS.get(one.kind) or (OPERATORS_WITH_MOMENTUM if one.momentum else OPERATORS_OF_SGD)
    saved, spared = 1 - fused / passes, 1 - 1 / operators
    streams_s = passes * BYTES * one.elements / BYTES_PER_S
    moving = min(1.0, streams_s / update_s) if update_s > 0 and one.device == "cpu" else 0.0
    low, likely, high = (
        min(0.95, (moving * saved * memory + (1 - moving) * min(dispatch, spared)) * _above(own_s, update_s))
        for memory, dispatch, own_s in zip(MEMORY_GONE, DISPATCH_GONE, STEP_S, strict=True)
    )
    return low, likely, high


def _above(own_s: float, update_s: float) -> float:
    """The share of an update that is more than the call of step()."""
    return max(0.0, 1.0 - own_s / update_s) if update_s > 0 else 0.0
