"""Builders of facts about the script: what it constructs and calls, a line each. Times in milliseconds."""

from __future__ import annotations

from typing import Any

from perfdoctor.facts.script.model_and_optimizers import ModelFacts, Optimizer, OptimizerFacts
from perfdoctor.facts.script.module_calls import BiasFacts, PrecisionFacts, Repeat, RepeatedCallFacts
from perfdoctor.facts.script.parallel import ParallelFacts
from perfdoctor.facts.steps.batch_size_cost import BatchSizeFacts
from perfdoctor.model.measured import GpuFacts, Location


def at(line: int, function: str = "main") -> Location:
    """A line of the script."""
    return Location("train.py", line, function)


def optimizer(kind: str = "AdamW", way: str | None = "for-loop", **given: Any) -> Optimizer:
    """A hundred small tensors."""
    return Optimizer(
        **{
            "name": f"torch.optim.{kind.lower()}.{kind}",
            "way": way,
            "tensors": 100,
            "elements": 6_400,
            "device": "cpu",
            "momentum": False,
            "special": False,
            "constructed_at": at(30),
            "at": at(50),
            **given,
        }
    )


def optimizers(*found: Optimizer) -> OptimizerFacts:
    """The optimizers of a run."""
    return OptimizerFacts(found or (optimizer(),))


def model(float64: float = 0.0, float16: float = 0.0, **given: Any) -> ModelFacts:
    """A model of a million parameters."""
    return ModelFacts(
        **{
            "name": "__main__.Net",
            "parameters": 1_000_000,
            "float64": float64,
            "float16": float16,
            "wide_loss": False,
            "at": at(25),
            **given,
        }
    )


def repeats(
    share: float = 0.2,
    seen: float = 1.0,
    recording: bool = False,
    first: int = 41,
    again: int = 43,
    by_chance: bool = False,
    module: str = "Net",
    **given: Any,
) -> RepeatedCallFacts:
    """One module called on two lines."""
    found = Repeat(module, at(first), at(again), share, seen, recording, by_chance, **given)
    return RepeatedCallFacts((found,) if share else (), 6)


def biases(millions: float = 10.0, count: int = 2, device: str = "cpu") -> BiasFacts:
    """Convolutions with a bias before batch normalisation."""
    layers = tuple((f"layers.{index}", at(10 + index)) for index in range(count))
    return BiasFacts(layers, count, millions * 1e6, device)


def precision(autocast: str | None = None, in_backward: str | None = None, scaled: bool = False) -> Any:
    """Autocast as it acts."""
    return PrecisionFacts("cpu", autocast, in_backward, scaled, at(44), at(42) if in_backward else None)


def parallel(**given: Any) -> ParallelFacts:
    """Two processes with gloo on CPUs."""
    return ParallelFacts(
        **{
            "wrapper": "DistributedDataParallel",
            "wrapped_at": at(22),
            "devices": 0,
            "device_ids": 0,
            "device": "cpu",
            "world": 2,
            "backend": "gloo",
            "group_at": at(12),
            "backward_at": at(44),
            "synced": 1.0,
            "exposed_s": 0.001,
            "unused": 0,
            **given,
        }
    )


def sizes(likely: float = 0.2, samples: float = 32) -> BatchSizeFacts:
    """A step of which `likely` would be there without samples."""
    return BatchSizeFacts(
        samples, (likely / 2, likely, min(1.0, likely * 1.2)), "4 samples still take 2.00 ms"
    )


def gpu(utilisation: float | None = 0.9) -> GpuFacts:
    """One device in use."""
    return GpuFacts(("Tesla V100",), utilisation, None, None)
