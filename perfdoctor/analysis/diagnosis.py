"""Facts become a diagnosis: what caused each second, what it would bring if it were free, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from perfdoctor.analysis.device import DeviceFacts
from perfdoctor.analysis.facts import NO_STEPS, Facts
from perfdoctor.analysis.parallel import ParallelFacts, exchanging, searching
from perfdoctor.analysis.stepmodel import TRUSTED_ERROR, StepModel
from perfdoctor.batch import BatchFacts, Stage
from perfdoctor.job import JobFacts
from perfdoctor.model import (
    Bottleneck,
    Confidence,
    Diagnosis,
    Finding,
    GpuFacts,
    Marker,
    Phase,
    StackFacts,
    StepFacts,
    Verdict,
)

WORTHWHILE = 0.05  # of wall time; what is avoidable below it is no bottleneck
BALANCED = 0.05  # two classes this close at the top: neither is the bottleneck
UNEXPLAINED = 0.20  # of wall time outside compute is a bottleneck even where no tip knows its cure
FEW_STEPS, SHORT_S = 20, 2.0  # below either, a verdict is a guess: start-up effects are as large as the step
TOO_FEW_STEPS, TOO_SHORT_S = 5, 1.0  # below either, no verdict at all
MANY_STEPS, LONG_S = 100, 5.0  # from here on the verdict does not move any more on steady runs
UNSTEADY, WILD = 0.25, 0.80  # spread of block means over their mean
LEAST_SHOWN = 0.005  # a class below this share is not named
CROWDED = 0.25  # seconds without a core per second: from here on the cores, too, make an exchange long
CLOSE_TO_ALL = 100.0  # ceilings end here: "more than a hundred times" says as much as a larger number

COMPUTING = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.VALIDATION)
NOTHING_WORTHWHILE = "no change that was looked for is likely to bring 5 % or more"
KIND_CLASS = {"data": Bottleneck.DATA, "queue": Bottleneck.DATA, "compute": Bottleneck.COMPUTE}


@dataclass(frozen=True)
class Blame:
    """Shares of wall time by the class that caused them (they add up to 1), and a speedup bound for each."""

    classes: Mapping[Bottleneck, float]
    ceilings: Mapping[Bottleneck, float]

    @property
    def ranked(self) -> list[Bottleneck]:
        """Classes, largest share first."""
        return sorted(self.classes, key=lambda kind: -self.classes[kind])

    def __str__(self) -> str:
        shown = (kind for kind in self.ranked if self.classes[kind] >= LEAST_SHOWN)
        return ", ".join(f"{kind.value} {self.classes[kind]:.0%}" for kind in shown)


def blame(facts: Facts) -> Blame | None:
    """What caused each second, or None without steps."""
    step = facts.get(StepFacts)
    if step is None or step.mean_s <= 0:
        return None
    by_phase = _by_phase(step, facts.get(StackFacts), facts.get(BatchFacts))
    crowded = min(step.crowded_s / step.mean_s, by_phase[Bottleneck.COMPUTE])
    by_phase[Bottleneck.COMPUTE] -= crowded
    by_phase[Bottleneck.DATA] += crowded
    _charge_waiting(by_phase, step, facts.get(JobFacts))
    exchanged = min(_exchanged(step, facts.get(ParallelFacts)), by_phase[Bottleneck.COMPUTE])
    by_phase[Bottleneck.COMPUTE] -= exchanged
    by_phase[Bottleneck.NETWORK] += exchanged
    classes = _on_device(by_phase, facts.get(GpuFacts), facts.get(DeviceFacts))
    total = sum(classes.values())
    classes = {kind: share / total for kind, share in classes.items()}
    return Blame(classes, ceilings(classes, facts.get(StepModel), fetching(facts.get(BatchFacts))))


def _charge_waiting(classes: dict[Bottleneck, float], step: StepFacts, job: JobFacts | None) -> None:
    """Of the exchange, waiting for a late rank goes to the class of what made it late.

    And what its own threads lack cores for, which other programs have, is no link that is slow.
    """
    if job is None:
        return
    crowded = {Bottleneck.COMPUTE: job.crowded_s}
    for kind, lost_s in (*job.waits.items(), *crowded.items()):
        share = min(lost_s / step.mean_s, classes[Bottleneck.NETWORK])
        classes[Bottleneck.NETWORK] -= share
        classes[kind] += share


def _exchanged(step: StepFacts, parallel: ParallelFacts | None) -> float:
    """The share of the step, within forward and backward, that surely is exchange between processes.

    Exchanges that were timed are a phase of their own.
    """
    if parallel is None or parallel.wrapper != "DistributedDataParallel":
        return 0.0
    return (0.0 if parallel.measured else exchanging(step, parallel)[0]) + searching(step, parallel)


def too_little(step: StepFacts | None) -> str | None:
    """Why nothing can be concluded from so short a run, or None."""
    if step is None or (step.count >= TOO_FEW_STEPS and step.wall_s >= TOO_SHORT_S):
        return None
    return f"saw only {step.count} step{'s' if step.count != 1 else ''} in {step.wall_s:.1f} s"


def _by_phase(
    step: StepFacts, stacks: StackFacts | None, batch: BatchFacts | None
) -> dict[Bottleneck, float]:
    """Each phase to its class; `other` is split by what its lines are for, waits by what batches wait for."""
    classes = dict.fromkeys(Bottleneck, 0.0)
    far = step.share(Phase.DATA_WAIT) * fetching(batch)
    classes[Bottleneck.DATA] = step.share(Phase.DATA_WAIT) - far
    classes[Bottleneck.TRANSFER] = step.share(Phase.HOST_TO_DEVICE)
    classes[Bottleneck.NETWORK] = step.share(Phase.GRAD_SYNC) + far
    classes[Bottleneck.COMPUTE] = sum(step.share(phase) for phase in COMPUTING)
    classes[Bottleneck.HOST] = step.share(Phase.CHECKPOINT)
    lines = stacks.phases.get(Phase.OTHER, ()) if stacks else ()
    seen = sum(line.share for line in lines)
    # the timers charge what lies between forward and backward to computing; its lines tell what it was
    charged = min(max(0.0, seen - step.share(Phase.OTHER)), classes[Bottleneck.COMPUTE])
    classes[Bottleneck.COMPUTE] -= charged
    other = step.share(Phase.OTHER) + charged
    for line in lines:
        classes[KIND_CLASS.get(line.kind or "", Bottleneck.HOST)] += (
            other * line.share / seen if seen else 0.0
        )
    if not seen:
        classes[Bottleneck.HOST] += other
    return classes


def _on_device(
    classes: dict[Bottleneck, float], gpu: GpuFacts | None, device: DeviceFacts | None
) -> dict[Bottleneck, float]:
    """On an accelerator, compute is the time it is busy; only while it idles does the host's time count.

    How busy it is, a window of torch.profiler tells best; without one, its driver does.
    """
    if device is not None:
        busy, network, transfer = device.compute, device.exposed_comm, device.exposed_copy
    elif gpu is not None and gpu.utilisation is not None:
        busy, network, transfer = min(1.0, max(0.0, gpu.utilisation)), 0.0, 0.0
    else:
        return classes
    charged = dict.fromkeys(Bottleneck, 0.0)
    charged[Bottleneck.COMPUTE] = busy
    charged[Bottleneck.NETWORK], charged[Bottleneck.TRANSFER] = network, transfer
    left = max(0.0, 1.0 - busy - network - transfer)
    for kind in (Bottleneck.DATA, Bottleneck.NETWORK, Bottleneck.TRANSFER):
        waited = min(left, max(0.0, classes[kind] - charged[kind]))
        charged[kind] += waited
        left -= waited
    charged[Bottleneck.HOST] = left  # nothing else to wait for: the host launches too slowly
    return charged


def fetching(batch: BatchFacts | None) -> float:
    """The share of a batch that is fetched over a network."""
    return batch.share(Stage.FETCHING) if batch is not None else 0.0


def ceilings(
    classes: Mapping[Bottleneck, float], model: StepModel | None = None, remote: float = 0.0
) -> dict[Bottleneck, float]:
    """The speedup if a class were free. Without compute, a step still lasts as long as its batches take.

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


def conclude(facts: Facts, blamed: Blame | None, findings: Sequence[Finding]) -> Diagnosis:
    """The verdict, with what speaks for it."""
    step = facts.get(StepFacts)
    if step is None or blamed is None:
        zero = dict.fromkeys(Bottleneck, 0.0)
        why = facts.missing.get(StepFacts, NO_STEPS)
        return Diagnosis(
            Verdict.INCONCLUSIVE, 0.0, 1.0, Confidence.LOW, (why,), zero, dict.fromkeys(Bottleneck, 1.0)
        )
    model = facts.get(StepModel)
    verdict, kind = _verdict(step, blamed, findings)
    because = _because(step, blamed, verdict, findings)
    ceiling = blamed.ceilings[kind]
    return Diagnosis(
        verdict=verdict,
        share=blamed.classes[kind],
        ceiling_speedup=ceiling,
        confidence=_confidence(step, facts, verdict, kind),
        because=(*because, *_doubts(step, facts, verdict)),
        classes=blamed.classes,
        ceilings=blamed.ceilings,
        model_error=model.error if model is not None else None,
    )


def _verdict(step: StepFacts, blamed: Blame, findings: Sequence[Finding]) -> tuple[Verdict, Bottleneck]:
    """The verdict and the class that its share and ceiling are about."""
    if too_little(step):
        return Verdict.INCONCLUSIVE, blamed.ranked[0]
    return decide(blamed, findings, wild=step.drift > WILD)


def decide(
    blamed: Blame, findings: Sequence[Finding], wild: bool = False, watching: float = 0.0
) -> tuple[Verdict, Bottleneck]:
    """The verdict, and the class that its share and ceiling are about, where enough was seen.

    `wild`: step times vary so much that no bottleneck can be named. `watching`: the share of the time that
    watching itself is likely to have cost the host; no change of the script avoids it.
    """
    top, second = blamed.ranked[:2]
    avoidable = _avoidable(blamed, findings)
    avoidable[Bottleneck.HOST] -= watching
    worst = max(avoidable, key=lambda kind: avoidable[kind])
    if avoidable[worst] < WORTHWHILE:
        return (Verdict.HEALTHY if top is Bottleneck.COMPUTE else Verdict(top.value)), top
    if wild:
        return Verdict.INCONCLUSIVE, top
    if blamed.classes[top] - blamed.classes[second] <= BALANCED and {top, second} & {worst}:
        return Verdict.BALANCED, top
    return Verdict(worst.value), worst


def _avoidable(blamed: Blame, findings: Sequence[Finding]) -> dict[Bottleneck, float]:
    """The share of wall time that could go, by class.

    Compute is what the user pays for: only what a finding takes out of it is avoidable. Of the others it is
    what the model says, if there is a finding or so much that one is owed.
    """
    likely = dict.fromkeys(Bottleneck, 1.0)
    for finding in findings:
        likely[finding.bottleneck] = max(likely[finding.bottleneck], finding.gain.likely)
    avoidable = {}
    for kind, share in blamed.classes.items():
        found = 1.0 - 1.0 / likely[kind]
        whole = 1.0 - 1.0 / blamed.ceilings[kind]
        owed = kind is not Bottleneck.COMPUTE and (found >= WORTHWHILE or share >= UNEXPLAINED)
        avoidable[kind] = whole if owed else found
    return avoidable


def _because(
    step: StepFacts, blamed: Blame, verdict: Verdict, findings: Sequence[Finding]
) -> tuple[str, ...]:
    first = f"of the time from the first step to the last: {blamed}"
    if verdict is Verdict.INCONCLUSIVE:
        return (too_little(step) or _wandering(step), first)
    if verdict is Verdict.HEALTHY:
        return (first, NOTHING_WORTHWHILE)
    return (first,)


def _wandering(step: StepFacts) -> str:
    return f"step time varies by {step.drift:.0%} from one tenth of the run to another"


def _doubts(step: StepFacts, facts: Facts, verdict: Verdict) -> tuple[str, ...]:
    """What lowers the confidence, in words."""
    said = []
    model = facts.get(StepModel)
    if step.marker not in (Marker.UPDATE, Marker.BACKWARD):
        said.append(
            f"no optimizer step or backward was seen: steps are counted by {step.marker.name.lower()}s"
        )
    crowded = step.crowded_s / step.mean_s
    if crowded >= WORTHWHILE:
        said.append(f"in {crowded:.0%} of it training is slowed by its own workers, who have the cores")
    if model is not None and abs(model.error) > TRUSTED_ERROR:
        said.append(
            f"the step model misses the measured mean step by {model.error:+.0%}: predicted ranges are wider"
        )
    if step.drift > UNSTEADY and verdict is not Verdict.INCONCLUSIVE:
        said.append(_wandering(step))
    job = facts.get(JobFacts)
    if verdict is Verdict.NETWORK and job is not None and not job.matched:
        said.append("the exchanges of all ranks could not be held together: some of it may be waiting")
    lacking = _lacking(job)
    if verdict is Verdict.NETWORK and lacking >= CROWDED:
        said.append(
            f"ranks had threads without a core {lacking:.0%} of the time: part of the exchange is that"
        )
    if verdict is Verdict.NETWORK and job is not None and job.matched and job.missing:
        said.append("ranks are missing: what looks like the network may be waiting for them")
    if facts.run.device != "cpu" and facts.get(GpuFacts) is None:
        said.append(f"the accelerator was not sampled ({facts.missing.get(GpuFacts, 'no reason known')})")
    return tuple(said)


def _lacking(job: JobFacts | None) -> float:
    """How long threads of the median rank were ready but had no core, per second."""
    delays = [rank.delay for rank in job.ranks if rank.delay is not None] if job is not None else []
    return median(delays) if delays else 0.0


def _confidence(step: StepFacts, facts: Facts, verdict: Verdict, kind: Bottleneck) -> Confidence:
    model = facts.get(StepModel)
    accelerated = facts.run.device != "cpu"
    low = (
        verdict is Verdict.INCONCLUSIVE
        or step.count < FEW_STEPS
        or step.wall_s < SHORT_S
        or step.drift > WILD
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
        or (kind is Bottleneck.NETWORK and _lacking(facts.get(JobFacts)) >= CROWDED)
        or (kind is Bottleneck.DATA and model is not None and abs(model.error) > TRUSTED_ERROR)
        or (step.share(Phase.OTHER) > UNEXPLAINED and facts.get(StackFacts) is None)
    )
    return Confidence.MEDIUM if unsure else Confidence.HIGH
