"""Attributes each second of a run to its cause, bounds what removing the cause would bring, and concludes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfdoctor.diagnosis import confidence
from perfdoctor.diagnosis.confidence import CROWDED, UNEXPLAINED, UNSTEADY, core_delay, without_a_core
from perfdoctor.diagnosis.other_time import awaited, computing, other_time, without_waits
from perfdoctor.diagnosis.steadiness import Steadiness, by_tenth, led
from perfdoctor.diagnosis.waiting import charge_waiting, on_waiting, uneven
from perfdoctor.facts.device.charged import move
from perfdoctor.facts.device.device import DeviceFacts
from perfdoctor.facts.device.profiler_windows import NO_WINDOW
from perfdoctor.facts.gather import NO_STEPS, Facts
from perfdoctor.facts.predict.step_model import TRUSTED_ERROR, StepModel
from perfdoctor.facts.script.parallel import ParallelFacts, searching, syncing
from perfdoctor.facts.steps.tenths import PhaseTenths
from perfdoctor.model.batch import BatchFacts, Stage
from perfdoctor.model.concluded import (
    CLOSE_TO_ALL,
    Bottleneck,
    Confidence,
    Diagnosis,
    Finding,
    OtherTime,
    Verdict,
)
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import GpuFacts, Marker, Phase, StackFacts, StepFacts
from perfdoctor.model.ranks import DDP, JobFacts
from perfdoctor.model.units import count, seconds

WORTHWHILE = 0.05  # of wall time; what is avoidable below it is no bottleneck
BALANCED = 0.05  # two classes this close at the top: neither is the bottleneck
MOST = 0.5  # of a class
COMPARABLE = 1 / 3  # of what is avoidable of one: where less is of the other, the first is the bottleneck
TOO_FEW_STEPS, TOO_SHORT_S = 5, 1.0  # below either, no verdict at all
WILD = 0.80  # spread of block means over their mean, as UNSTEADY

COUNTED_BY = {Marker.CALL: "module calls", Marker.BATCH: "batches"}
TORN = "a part of what was recorded is lost"
NOTHING_WORTHWHILE = "no known change is likely to make steps 5 % faster"


@dataclass(frozen=True)
class TimeAttribution:
    """Shares of wall time by the class that caused them (they add up to 1), and a speedup bound for each.

    `tenths`: the same shares in each tenth of the run, where it was long enough to have any. `other`: what of
    them no phase tells, where it is phases that tell.
    """

    classes: Mapping[Bottleneck, float]
    bounds: Mapping[Bottleneck, float]
    tenths: tuple[Mapping[Bottleneck, float], ...] = ()
    other: OtherTime | None = None

    @property
    def ranked(self) -> list[Bottleneck]:
        """Classes, largest share first."""
        return sorted(self.classes, key=lambda kind: -self.classes[kind])

    def __str__(self) -> str:
        percents = {kind: f"{self.classes[kind]:.0%}" for kind in self.ranked}
        return ", ".join(f"{kind.value} {percent}" for kind, percent in percents.items() if percent != "0%")


def attribute_time(facts: Facts) -> TimeAttribution | None:
    """Attribute the time of the steps to its causes; None without steps."""
    step = facts.get(StepFacts)
    if step is None or step.mean_s <= 0:
        return None
    stacks = facts.get(StackFacts)
    other = other_time(step, stacks)
    by_phase = _by_phase(step, facts.get(BatchFacts), other)
    crowded = step.contention_s / step.mean_s
    move(by_phase, crowded, Bottleneck.COMPUTE, Bottleneck.DATA)
    charge_waiting(by_phase, step, facts.get(JobFacts))
    move(by_phase, _gradient_sync(step, facts.get(ParallelFacts)), Bottleneck.COMPUTE, Bottleneck.NETWORK)
    of_device = _on_device(by_phase, facts.get(GpuFacts), facts.get(DeviceFacts))
    classes = by_phase if of_device is None else of_device
    total = sum(classes.values())
    classes = {kind: share / total for kind, share in classes.items()}
    bounds = speedup_bounds(classes, facts.get(StepModel), fetching(facts.get(BatchFacts)))
    tenths = by_tenth(facts.get(PhaseTenths), step, classes)
    told = without_waits(other, awaited(step, stacks)) if of_device is None else None
    return TimeAttribution(classes, bounds, tenths, told)


def _gradient_sync(step: StepFacts, parallel: ParallelFacts | None) -> float:
    """The share of the step, within forward and backward, that surely is gradient sync.

    Where it was timed it is a phase of its own.
    """
    if parallel is None or parallel.wrapper != DDP:
        return 0.0
    return (0.0 if parallel.measured else syncing(step, parallel)[0]) + searching(step, parallel)


def unjudgeable(facts: Facts) -> str | None:
    """Why nothing can be concluded from what is left of a run, or from so short a one; None where it can."""
    return TORN if facts.is_torn else too_little(facts.get(StepFacts))


def too_little(step: StepFacts | None) -> str | None:
    """Why nothing can be concluded from so short a run, or None."""
    if step is None or (step.count >= TOO_FEW_STEPS and step.wall_s >= TOO_SHORT_S):
        return None
    return f"only {count(step.count, 'step')} seen in {seconds(step.wall_s)}"


def _by_phase(step: StepFacts, batch: BatchFacts | None, other: OtherTime) -> dict[Bottleneck, float]:
    """Charge each phase to its class; `other` is split by its lines, waiting by what batches wait for."""
    classes = dict(other.classes)
    far = step.share(Phase.DATA_WAIT) * fetching(batch)
    classes[Bottleneck.DATA] += step.share(Phase.DATA_WAIT) - far
    classes[Bottleneck.TRANSFER] += step.share(Phase.HOST_TO_DEVICE)
    classes[Bottleneck.NETWORK] += step.share(Phase.GRAD_SYNC) + far
    classes[Bottleneck.COMPUTE] += computing(step) - other.in_passes
    classes[Bottleneck.HOST] += step.share(Phase.CHECKPOINT)
    return classes


def _on_device(
    classes: dict[Bottleneck, float], gpu: GpuFacts | None, device: DeviceFacts | None
) -> dict[Bottleneck, float] | None:
    """Charge compute with the time that an accelerator is busy; the host's time counts only while it idles.

    A window of torch.profiler tells best how busy it is; without one, its driver does; None without either.
    """
    if device is not None:
        busy, network, transfer = device.compute, device.exposed_comm, device.exposed_copy + device.away
    elif gpu is not None and gpu.utilisation is not None:
        busy, network, transfer = min(1.0, max(0.0, gpu.utilisation)), 0.0, 0.0
    else:
        return None
    charged = dict.fromkeys(Bottleneck, 0.0)
    charged[Bottleneck.COMPUTE] = busy
    charged[Bottleneck.NETWORK], charged[Bottleneck.TRANSFER] = network, transfer
    left = max(0.0, 1.0 - busy - network - transfer)
    for kind in (Bottleneck.DATA, Bottleneck.NETWORK, Bottleneck.TRANSFER):
        wait = min(left, max(0.0, classes[kind] - charged[kind]))
        charged[kind] += wait
        left -= wait
    charged[Bottleneck.HOST] = left  # nothing else to wait for: the host launches too slowly
    return charged


def fetching(batch: BatchFacts | None) -> float:
    """The share of a batch that is fetched over a network."""
    return batch.share(Stage.FETCHING) if batch is not None else 0.0


def speedup_bounds(
    classes: Mapping[Bottleneck, float], model: StepModel | None = None, remote: float = 0.0
) -> dict[Bottleneck, float]:
    """The most that removing all time of a class can bring; a step still lasts as long as its batches take.

    `remote` is the share of a batch that the network costs, and not data.
    """
    floor = 1 / CLOSE_TO_ALL
    loading = 0.0
    if model is not None and model.workers and model.step_s > 0:
        loading = min(1.0, model.data_s / model.workers / model.step_s)
    left = {Bottleneck.DATA: remote, Bottleneck.NETWORK: 1.0 - remote}  # of a batch, without that class
    return {
        kind: 1.0 / max(1.0 - share, floor, loading * left.get(kind, 1.0)) for kind, share in classes.items()
    }


def conclude(facts: Facts, attribution: TimeAttribution | None, findings: Sequence[Finding]) -> Diagnosis:
    """The verdict, with what speaks for it."""
    step = facts.get(StepFacts)
    if step is None or attribution is None:
        missing = facts.missing(StepFacts)
        return nothing_timed(missing.reason if missing is not None else NO_STEPS)
    model, job = facts.get(StepModel), facts.get(JobFacts)
    steady = steadiness(attribution, findings)
    little = unjudgeable(facts)
    verdict, kind = _verdict(step, attribution, findings, steady, little)
    unseen = _unseen(facts) if verdict is Verdict.HEALTHY else None
    if unseen is not None and facts.missing(DeviceFacts) == NO_WINDOW:  # else nobody could have seen it
        verdict, little = Verdict.INCONCLUSIVE, unseen
    because = _because(step, attribution, verdict, steady, little)
    most, doubt = confidence.earned(attribution.classes, verdict, kind, findings, job)
    seen = Confidence.LOW if unseen else confidence.seen(step, facts, verdict, kind, steady)
    return Diagnosis(
        verdict=verdict,
        share=attribution.classes[kind],
        bound=attribution.bounds[kind],
        confidence=max(most, seen, key=list(Confidence).index),
        because=(
            *because,
            *on_waiting(step, job),
            *doubt,
            *([unseen] if unseen and verdict is Verdict.HEALTHY else []),
            *_doubts(step, facts, verdict, steady),
        ),
        classes=attribution.classes,
        bounds=attribution.bounds,
        model_error=model.error if model is not None else None,
        waits_for_ranks=verdict is Verdict.NETWORK and uneven(job) >= MOST * attribution.classes[kind],
        other=attribution.other,
    )


def _unseen(facts: Facts) -> str | None:
    """Why nobody knows what a device does while it computes, or None where that was seen.

    Then "healthy" would say no more than that the device is busy, and most tips of devices were not judged.
    """
    missing = facts.missing(DeviceFacts)
    if facts.run.device == "cpu" or missing is None:
        return None
    return f"what the device does with its time is not known: {missing.reason}"


def nothing_timed(why: str) -> Diagnosis:
    """The verdict where no time can be attributed."""
    shares, bounds = dict.fromkeys(Bottleneck, 0.0), dict.fromkeys(Bottleneck, 1.0)
    return Diagnosis(Verdict.INCONCLUSIVE, 0.0, 1.0, Confidence.LOW, (why,), shares, bounds)


def steadiness(attribution: TimeAttribution, findings: Sequence[Finding]) -> Steadiness:
    """How steadily the class leads that a verdict is about."""
    avoidable = _avoidable(attribution, _found(findings))
    _, kind = decide(attribution, findings)
    by = avoidable if avoidable[kind] >= WORTHWHILE else None
    tenths_led = led(kind, attribution.tenths, attribution.classes, by)
    return Steadiness(kind, tenths_led, len(attribution.tenths), by_avoidable=by is not None)


def _verdict(
    step: StepFacts,
    attribution: TimeAttribution,
    findings: Sequence[Finding],
    steady: Steadiness,
    little: str | None,
) -> tuple[Verdict, Bottleneck]:
    """The verdict and the class that its share and speedup bound are about.

    However far step time wanders, a class that leads in nearly every tenth of the run is its bottleneck.
    """
    if little or (step.drift > WILD and not steady.held):
        return Verdict.INCONCLUSIVE, attribution.ranked[0]
    return decide(attribution, findings)


def decide(
    attribution: TimeAttribution, findings: Sequence[Finding], watching: float = 0.0
) -> tuple[Verdict, Bottleneck]:
    """The verdict, and the class that its share and speedup bound are about, where enough steps were timed.

    Two classes that are level at the top are told apart by what is avoidable: where that is one of them, or
    far more of one than of the other, it is the bottleneck; else likewise by what findings are likely to take
    away, if that is worthwhile. `watching`: the share of the time that watching
    itself is likely to have cost the host; no change of the script avoids it, and no finding promises it.
    """
    top, second = attribution.ranked[:2]
    level = attribution.classes[top] - attribution.classes[second] <= BALANCED
    found = _found(findings)
    avoidable = _avoidable(attribution, found)
    avoidable[Bottleneck.HOST] = max(found[Bottleneck.HOST], avoidable[Bottleneck.HOST] - watching)
    worst = max(avoidable, key=lambda kind: avoidable[kind])
    if avoidable[worst] < WORTHWHILE:
        if top is Bottleneck.COMPUTE:
            return Verdict.HEALTHY, top
        return (Verdict.BALANCED if level else Verdict(top.value)), top
    if level and worst in {top, second} and _are_comparable(avoidable[top], avoidable[second]):
        worst = max(top, second, key=lambda kind: found[kind])
        if found[worst] < WORTHWHILE or _are_comparable(found[top], found[second]):
            return Verdict.BALANCED, top
    return Verdict(worst.value), worst


def _are_comparable(one: float, other: float) -> bool:
    """Whether the lesser of two shares that could go is worthwhile, too, and not far less."""
    return min(one, other) >= max(WORTHWHILE, COMPARABLE * max(one, other))


def _found(findings: Sequence[Finding]) -> dict[Bottleneck, float]:
    """The share of wall time that findings are likely to take away, by class."""
    likely = dict.fromkeys(Bottleneck, 1.0)
    for finding in findings:
        likely[finding.bottleneck] = max(likely[finding.bottleneck], finding.gain.likely)
    return {kind: 1.0 - 1.0 / speedup for kind, speedup in likely.items()}


def _avoidable(attribution: TimeAttribution, found: Mapping[Bottleneck, float]) -> dict[Bottleneck, float]:
    """The share of wall time that could go, by class.

    Compute is what the user pays for: only what a finding takes out of it is avoidable. Of the others it is
    what the model says, if there is a finding or so much that one is owed. What a finding takes out of a
    second class as well goes with the first.
    """
    avoidable = {}
    for kind, share in attribution.classes.items():
        at_most = 1.0 - 1.0 / attribution.bounds[kind]
        owed = kind is not Bottleneck.COMPUTE and (found[kind] >= WORTHWHILE or share >= UNEXPLAINED)
        avoidable[kind] = max(at_most, found[kind]) if owed else found[kind]
    return avoidable


def _because(
    step: StepFacts,
    attribution: TimeAttribution,
    verdict: Verdict,
    steady: Steadiness,
    little: str | None,
) -> tuple[str, ...]:
    first = f"time from first to last step: {attribution}"
    if verdict is Verdict.INCONCLUSIVE:
        return (little or _wandering(step, steady), first)
    if verdict is Verdict.HEALTHY:
        return (first, NOTHING_WORTHWHILE)
    return (first,)


def _wandering(step: StepFacts, steady: Steadiness) -> str:
    wandering = f"step time varies by {step.drift:.0%} from one tenth of the run to another"
    return f"{wandering}; {steady}" if steady.tenths else wandering


def _unmarked(step: StepFacts) -> str:
    """Why no update or backward ends the steps: one that calls a closure first may last the whole run."""
    begun = step.share(Phase.BACKWARD) + step.share(Phase.OPTIMIZER) > 0
    return "no optimizer step had finished" if begun else "no optimizer step or backward was seen"


def _doubts(step: StepFacts, facts: Facts, verdict: Verdict, steady: Steadiness) -> tuple[str, ...]:
    """What lowers the confidence, in words."""
    doubts = []
    model = facts.get(StepModel)
    if step.marker not in (Marker.UPDATE, Marker.BACKWARD):
        doubts.append(f"{_unmarked(step)}: steps are counted by {COUNTED_BY[step.marker]}")
    crowded = step.contention_s / step.mean_s
    if crowded >= WORTHWHILE:
        doubts.append(f"in {crowded:.0%} of the step time, loader workers take cores from training")
    if model is not None and abs(model.error) > TRUSTED_ERROR:
        doubts.append(f"the step model's error is {model.error:+.0%}: predicted ranges are wider")
    if step.drift > UNSTEADY and verdict is not Verdict.INCONCLUSIVE:
        doubts.append(_wandering(step, steady))
    elif steady.tenths and not steady.held:
        doubts.append(f"shares differ between the tenths of the run: {steady}")
    late = without_a_core(facts)
    if late >= CROWDED:
        doubts.append(
            f"other programs held its cores: its threads waited {late:.2f} s per second in total;"
            " on an idle machine it computes faster"
        )
    job = facts.get(JobFacts)
    if verdict is Verdict.NETWORK and job is not None and not job.matched:
        doubts.append(
            "gradient syncs could not be matched across all ranks: part of this time may be waiting for a"
            " slow rank"
        )
    delay = core_delay(job)
    if verdict is Verdict.NETWORK and delay >= CROWDED:
        doubts.append(
            f"the threads of a rank waited {delay:.2f} s per second for a free core: part of the gradient"
            " sync is that wait"
        )
    if verdict is Verdict.NETWORK and job is not None and job.matched and job.missing:
        doubts.append("ranks are missing: what looks like the network may be waiting for them")
    if facts.run.device != "cpu" and facts.get(GpuFacts) is None:
        missing = facts.missing(GpuFacts)
        why = missing.reason if missing is not None else "no reason known"
        doubts.append(f"the accelerator was not sampled ({why})")
    return tuple(doubts)
