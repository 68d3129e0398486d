"""How far a verdict can be trusted: by how much was seen, and how often verdicts of its kind were right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from perfdoctor.diagnosis.steadiness import Steadiness
from perfdoctor.facts.gather import Facts
from perfdoctor.facts.predict.step_model import TRUSTED_ERROR, StepModel
from perfdoctor.model.concluded import Bottleneck, Confidence, Finding, Verdict
from perfdoctor.model.measured import CpuFacts, GpuFacts, Marker, Phase, StackFacts, StepFacts
from perfdoctor.model.ranks import JobFacts

FEW_STEPS, SHORT_S = 20, 2.0  # below either, a verdict is a guess: start-up effects are as large as the step
MANY_STEPS, LONG_S = 100, 5.0  # from here on the verdict does not move any more on steady runs
UNSTEADY = 0.25  # spread of block means over their mean
UNEXPLAINED = 0.20  # of wall time outside compute is a bottleneck even where no tip knows its cure
CROWDED = 0.25  # seconds without a core per second: from here on the cores, too, make an exchange long


def earned(
    classes: Mapping[Bottleneck, float],
    verdict: Verdict,
    kind: Bottleneck,
    findings: Sequence[Finding],
    job: JobFacts | None,
) -> tuple[Confidence, tuple[str, ...]]:
    """The most confidence that verdicts of this kind have earned, and what speaks against more, in words.

    By how often they were right on scripts by authors who knew nothing of the tips: docs/accuracy.md,
    "Confidence". What takes most of the time, and is avoidable, is rarely mistaken. That nothing was found
    is weaker: a cause that no tip knows looks the same.
    """
    if verdict is Verdict.HEALTHY:
        return Confidence.MEDIUM, ()
    top = max(classes, key=lambda each: classes[each])
    saving = [each for each in findings if each.advice.change is not None]
    gains = [each.gain for each in saving if each.bottleneck is kind]
    uncertain = max((gain.low for gain in gains), default=1.0) < 1.0
    if uncertain and (verdict is Verdict.COMPUTE or top is not kind):
        return Confidence.LOW, ("the findings may bring nothing: their ranges reach below 1",)
    if verdict is Verdict.COMPUTE:
        return (Confidence.HIGH if job is None else Confidence.MEDIUM), ()
    if top is not kind:
        known = any(each.bottleneck is top for each in saving)
        left = "less of it can be saved" if known else "no fix for it is known"
        return Confidence.MEDIUM, (f"{top.value} takes more of the time ({classes[top]:.0%}), but {left}",)
    return (Confidence.MEDIUM if verdict is Verdict.BALANCED else Confidence.HIGH), ()


def seen(step: StepFacts, facts: Facts, verdict: Verdict, kind: Bottleneck, steady: Steadiness) -> Confidence:
    """How far what was seen can be trusted.

    *low*: few steps, little time, less than half of the cores that it asked for, or an accelerator that
    nobody sampled: what is not known could be all of it. *medium*: enough was seen, and one thing speaks
    against it: an estimate instead of a measurement, step time that wanders, a class that does not lead
    throughout. *high*: nothing does.
    """
    model = facts.get(StepModel)
    accelerated = facts.run.device != "cpu"
    low = (
        verdict is Verdict.INCONCLUSIVE
        or step.count < FEW_STEPS
        or step.wall_s < SHORT_S
        or _starved(facts)
        or (accelerated and facts.get(GpuFacts) is None)
    )
    if low:
        return Confidence.LOW
    unsure = (
        accelerated
        or step.marker not in (Marker.UPDATE, Marker.BACKWARD)
        or step.wall_s < LONG_S
        or step.count < MANY_STEPS
        or step.drift > UNSTEADY
        or (steady.tenths > 0 and not steady.held)
        or without_a_core(facts) >= CROWDED
        or (kind is Bottleneck.NETWORK and core_delay(facts.get(JobFacts)) >= CROWDED)
        or (kind is Bottleneck.DATA and model is not None and abs(model.error) > TRUSTED_ERROR)
        or (step.share(Phase.OTHER) > UNEXPLAINED and facts.get(StackFacts) is None)
    )
    return Confidence.MEDIUM if unsure else Confidence.HIGH


def without_a_core(facts: Facts) -> float:
    """Seconds in which threads of the training process had no core, for other programs had them, per second.

    Threads count one by one: where one of two waits, so does the step, for an operation ends with its last.
    """
    cpu = facts.get(CpuFacts)
    return (cpu.main_delay or 0.0) if cpu is not None and cpu.crowded else 0.0


def _starved(facts: Facts) -> bool:
    """Whether its threads waited longer for cores that other programs had than they ran."""
    cpu = facts.get(CpuFacts)
    return cpu is not None and cpu.main_cores is not None and without_a_core(facts) > cpu.main_cores


def core_delay(job: JobFacts | None) -> float:
    """How long threads of the median rank were ready but had no core, per second."""
    delays = [rank.delay for rank in job.ranks if rank.delay is not None] if job is not None else []
    return median(delays) if delays else 0.0
