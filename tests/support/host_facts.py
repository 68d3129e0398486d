"""Builders of facts about what goes on between the steps, a line each. Times in milliseconds."""

from __future__ import annotations

from perfdoctor.facts.host.between_steps import BetweenLine, BetweenStepsFacts
from perfdoctor.facts.host.debug_modes import DebugMode, DebugModeFacts
from perfdoctor.facts.host.gathered_outputs import GatheredOutputs, KeptOutput
from perfdoctor.facts.host.gc_pauses import GcPauseFacts
from perfdoctor.facts.host.slowing_down import Cause, SlowingFacts
from perfdoctor.facts.host.step_growth import StepGrowth
from perfdoctor.facts.script.gradient_clearing import GradientClearingFacts, GradientZeroingFacts
from perfdoctor.facts.script.retained_graph import RetainedGraphFacts
from perfdoctor.facts.script.startup import StartUpFacts, StartUpLine
from perfdoctor.facts.script.validation import ValidationFacts
from perfdoctor.facts.steps.periodic_stalls import PeriodicStalls
from perfdoctor.facts.user_source.update_dependence import Dependence
from perfdoctor.model.measured import LineCost, Location, Phase


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


def growing(
    slower: float = 0.2, phase: Phase = Phase.OTHER, cpu: float | None = 1.0, waiting: float | None = 0.0
) -> StepGrowth:
    """Steps of 10 ms that grow in one phase, which takes 2 ms at first; of each other phase there are 4 ms."""
    first = dict.fromkeys((Phase.FORWARD, Phase.BACKWARD), 0.004) | {phase: 0.002}
    first_s = sum(first.values())
    grown_s = 2 * (first_s / (1 - slower) - first_s)
    return StepGrowth(first_s, first_s + grown_s, slower, first, {phase: 1.0}, cpu, waiting, first_s)


def slowing(
    cause: Cause = Cause.WORK,
    slower: float = 0.2,
    phase: Phase = Phase.OTHER,
    growth: float | None = None,
    share: float = 0.3,
) -> SlowingFacts:
    """Steps that grow from 10 to 15 ms; a line that takes `share` of the step works on a list that grows."""
    line = LineCost(Location("train.py", 31, "fit", "limit = median(losses)"), share, 50)
    adds = Location("train.py", 30, "fit", "losses.append(loss.item())")
    known = (phase, 0.95, line, "losses", adds) if cause is Cause.WORK else (None, 0.0, None, None, None)
    return SlowingFacts(cause, 0.010, 0.015, slower, *known, bytes_per_step=growth)


def stalling(
    share: float = 0.2,
    every: int | None = 50,
    phase: Phase = Phase.OTHER,
    text: str | None = "refresh(pool)",
    kind: str | None = None,
) -> PeriodicStalls:
    """Ten steps of 60 ms among others of 10 ms, one in `every` steps or 5 seconds, in a line with this text."""
    line = (
        LineCost(Location("train.py", 40, "fit", text), share, 30, None, kind) if text is not None else None
    )
    return PeriodicStalls(every, 5.0, 10, 0.010, 0.060, share, phase, 0.9, line)


def starting(
    seconds: float = 40.0,
    share: float = 0.3,
    line: float = 25.0,
    kind: str = "script",
    text: str = "prepare(texts)",
) -> StartUpFacts:
    """A start of so many seconds, of which one line takes `line` and another one second."""
    at, other = Location("train.py", 12, "main", text), Location("train.py", 15, "main", "model = Net()")
    lines = (StartUpLine(at, kind, line), StartUpLine(other, "model", 1.0))
    return StartUpFacts(seconds, share, 3.0, 0.2, 2.0, 0.1, {kind: line, "model": 1.0}, lines)


def validation(
    seconds: float = 4.0,
    count: int = 10,
    between: float = 50.0,
    wait: float = 0.0,
    function: str = "predict",
    text: str = "accuracy = validate(model)",
    dependence: Dependence = Dependence.REPORTED,
) -> ValidationFacts:
    """`count` validations that take `seconds` ms of each step, and `wait` ms for their batches."""
    return ValidationFacts(
        count,
        between,
        seconds / 1e3,
        wait / 1e3,
        Location("train.py", 80, "main", text),
        Location("train.py", 60, function, "logits = model(x)"),
        dependence,
    )


def between(
    share: float = 0.0, text: str = "study(out)", inside: int = 30, samples: int = 50
) -> BetweenStepsFacts:
    """One line of the loop that takes `share` of the step."""
    at = Location("train.py", 30, "fit", text)
    hot = at if inside == at.line else Location("train.py", inside, "update", "values.sort()")
    return BetweenStepsFacts((BetweenLine(at, hot, share, samples),))


def gathered(share: float, *names: str, samples: int = 100, reduces: bool = False) -> GatheredOutputs:
    """So much of the step joins outputs of evaluations; the script's configuration adds those names to them."""
    kept = (
        KeptOutput(name, Location("train.py", 5 + index, "main", f"config.output_{name} = True"))
        for index, name in enumerate(names)
    )
    made = Location("train.py", 20, "main", "trainer = Trainer(model, args)")
    called = Location("train.py", 30, "main", "trainer.train()")
    return GatheredOutputs(share, samples, called, made, tuple(kept), reduces)
