"""Measures how long the training thread was on a core, by the kernel's clock: TrainingThreadFacts."""

from __future__ import annotations

from perfdoctor.facts.host.resources import OwnSamples, growth
from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.missing import Missing


@dataclass(frozen=True)
class TrainingThreadFacts:
    """Shares of the time in which training stepped."""

    on_core: float
    without_core: float  # ready to run, but all cores were taken


@fact
def training_thread_facts(samples: OwnSamples) -> TrainingThreadFacts | Missing:
    """What the kernel counted for the first thread of the training process."""
    ran, lacked = (growth(samples, f"thread_{name}_s", {"main"}) for name in ("cpu", "delay"))
    if ran is None or lacked is None:
        return Missing("the kernel did not tell how long the training thread ran")
    return TrainingThreadFacts(min(1.0, ran), min(1.0, lacked))
