"""Estimates how much larger a batch memory holds: BatchRoom."""

from __future__ import annotations

from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.model_and_optimizers import ModelFacts, OptimizerFacts
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import GpuFacts, MemoryFacts, RunFacts
from perfdoctor.model.missing import Missing

BYTES = 4  # of a parameter in single precision
STATE = {"Adam": 2, "AdamW": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2}  # tensors kept for each parameter
SHARDED = 0.9  # of the memory in use: if all that is said to be fixed takes more, it lies on several devices


@dataclass(frozen=True)
class BatchRoom:
    """Memory where the batch is computed. `fixed_bytes` of what is used do not grow with it."""

    used_bytes: int  # at most, by whoever is on the device
    total_bytes: int
    fixed_bytes: int = 0  # parameters, their gradients and what the optimizer keeps, as far as that is known

    @property
    def times(self) -> float:
        """How many times the batch fits into all there is; more, where further parts stay as they are."""
        return (self.total_bytes - self.fixed_bytes) / (self.used_bytes - self.fixed_bytes)


@fact
def batch_room(
    run: RunFacts,
    memory: MemoryFacts | Missing,
    gpu: GpuFacts | Missing | None,
    model: ModelFacts | Missing | None,
    optimizers: OptimizerFacts | Missing | None,
) -> BatchRoom | Missing:
    """What is used and what there is, and how much of a device's the model itself takes."""
    asked = gpu if run.on_device else memory
    if isinstance(asked, Missing):
        return asked
    if isinstance(asked, GpuFacts):
        used, total = asked.memory_peak_bytes, asked.memory_total_bytes
        why = asked.reasons.get("memory_used_bytes", "not sampled")
    else:
        used, total = (asked.peak_rss_bytes, asked.total_bytes) if asked is not None else (None, None)
        why = "not sampled"
    if not used or not total:
        return Missing(f"memory of the {'device' if run.on_device else 'machine'}: {why}")
    if not run.on_device:
        return BatchRoom(used, max(used, total))
    fixed = _fixed_bytes(
        model if isinstance(model, ModelFacts) else None,
        optimizers if isinstance(optimizers, OptimizerFacts) else None,
    )
    return BatchRoom(used, max(used, total), fixed if fixed < SHARDED * used else 0)


def _fixed_bytes(model: ModelFacts | None, optimizers: OptimizerFacts | None) -> int:
    """Parameters in their precision, and for each that an optimizer updates a gradient and its state."""
    width = BYTES * (1.0 + model.float64 - 0.5 * model.float16) if model is not None else BYTES
    tensors = model.parameters if model is not None else 0
    for one in optimizers.optimizers if optimizers is not None else ():
        tensors += one.elements * (1 + STATE.get(one.kind, int(one.momentum)))
    return round(width * tensors)
