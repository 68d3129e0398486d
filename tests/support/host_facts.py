"""Builders of facts about what goes on between the steps, a line each. Times in milliseconds."""

from __future__ import annotations

from perfdoctor.facts.host.between_steps import BetweenLine, BetweenStepsFacts
from perfdoctor.facts.host.debug_modes import DebugMode, DebugModeFacts
from perfdoctor.facts.host.gc_pauses import GcPauseFacts
from perfdoctor.facts.script.gradient_clearing import GradientClearingFacts, GradientZeroingFacts
from perfdoctor.facts.script.retained_graph import RetainedGraphFacts
from perfdoctor.facts.script.validation import ValidationFacts
from perfdoctor.model.measured import LineCost, Location


def pauses(
    young: float = 0.0, full: float = 0.0, every: float = 10.0, at: Location | None = None
) -> GcPauseFacts:
    """Collections of `young` and of all objects, ms a step; the latter once in `every` steps."""
    often = 1 / every if full else 0.0
    return GcPauseFacts(often + 2.0, (young + full) / 1e3, often, full / 1e3, full * every / 1e3, at)


def debug(
    *checks: LineCost,
    busy: float | None = None,
    anomaly_s: tuple[float, float] | None = None,
    **modes: Location | None,
) -> DebugModeFacts:
    """These modes on at every look, with the lines that turned them on; and lines that look for NaN."""
    return DebugModeFacts(
        tuple(DebugMode(name, 1.0, at) for name, at in modes.items()), checks, busy, anomaly_s
    )


def clearing(kept: int = 0, cleared: int = 0, doubtful: bool = False) -> GradientClearingFacts:
    """Updates before which gradients were kept and cleared."""
    backward = Location("train.py", 12, "fit", "err.backward()")
    update = Location("train.py", 13, "fit", "self.opt.step()")
    return GradientClearingFacts(kept, cleared, backward, update, doubtful)


def zeroing(ms: float = 0.0) -> GradientZeroingFacts:
    """`ms` of setting gradients to zero in each step."""
    return GradientZeroingFacts(
        1.0, ms / 1e3, Location("train.py", 15, "fit", "opt.zero_grad(set_to_none=False)")
    )


def retained(
    graphs: int = 12,
    steps: float = 1000.0,
    growth: float | None = None,
    slower: float = 0.0,
    text: str = "total += loss",
) -> RetainedGraphFacts:
    """So many graphs alive at once, the oldest made so many steps ago; memory grows by so many bytes a step."""
    return RetainedGraphFacts(graphs, steps, "total", Location("train.py", 21, "fit", text), growth, slower)


def validation(
    seconds: float = 4.0,
    count: int = 10,
    between: float = 50.0,
    wait: float = 0.0,
    function: str = "predict",
    text: str = "accuracy = validate(model)",
    only_reported: bool = True,
) -> ValidationFacts:
    """`count` validations that take `seconds` ms of each step, and `wait` ms for their batches."""
    return ValidationFacts(
        count,
        between,
        seconds / 1e3,
        wait / 1e3,
        Location("train.py", 80, "main", text),
        Location("train.py", 60, function, "logits = model(x)"),
        only_reported,
    )


def between(
    share: float = 0.0, text: str = "study(out)", inside: int = 30, samples: int = 50
) -> BetweenStepsFacts:
    """One line of the loop that takes `share` of the step."""
    at = Location("train.py", 30, "fit", text)
    hot = at if inside == at.line else Location("train.py", inside, "update", "values.sort()")
    return BetweenStepsFacts((BetweenLine(at, hot, share, samples),))
