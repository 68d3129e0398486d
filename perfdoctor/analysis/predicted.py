"""What a run says of tweaks before they are tried: the gain of a variant, of all its tweaks together.

Numbers of workers, of batches kept ready, of threads and of samples in a batch are put into the model of the
step as they are asked for, also where that makes it slower. Of other tweaks the findings that name them tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from perfdoctor.analysis.diagnosis import COMPUTING, fetching, too_little
from perfdoctor.analysis.facts import Facts
from perfdoctor.analysis.findings import gain_of, within
from perfdoctor.analysis.sizes import SizeFacts
from perfdoctor.analysis.stepmodel import WORST, StepModel
from perfdoctor.batch import BatchFacts
from perfdoctor.change import NOTHING, Change, Estimate, removes
from perfdoctor.model import (
    Bottleneck,
    Finding,
    Gain,
    LoaderFacts,
    Report,
    StepFacts,
    ThreadFacts,
)
from perfdoctor.trial import Setting, Variant

SURE = 0.6  # of the stall certainly goes: forking or spawning; the rest is the first batch, partly
LARGE_S = 0.0005  # per module, forward and backward: smaller operations gain little from threads, or nothing
# Share of compute that threads speed up: small layers, usual ones, large matrices. Of small operations, which
# torch shares out in part or not at all, from none on; of very large ones, next to whose milliseconds the
# microseconds of sharing out vanish, all but what memory holds up.
PARALLEL, PARALLEL_OF_SMALL, PARALLEL_OF_LARGE = (0.3, 0.6, 0.9), (0.0, 0.3, 0.6), (0.5, 0.8, 0.95)
VERY_LARGE_S = 0.005  # per module: some 10^8 multiplications, the more the better they share out
TOO_MANY = 1.5  # threads per usable core from which they wait for each other's turns
CROWDED = (1.02, 1.2, 2.0)  # speedup of compute when threads no longer outnumber cores
ALONE = (1.0, 1.0, 1.0)  # what one thread loses to busy workers, by even sharing: it holds up no team
UNCHANGED = Change()

Settings = Mapping[str, Setting]  # of a variant, by the tweak's id
Flags = Mapping[str, "str | None"]  # each with its value
Judge = Callable[[Settings, Facts], "Change | None"]


@dataclass(frozen=True)
class _Part:
    """What one tweak or finding changes, and the classes of the time that it takes away."""

    change: Change
    kinds: tuple[Bottleneck, ...]


def predict(variant: Variant, facts: Facts, report: Report) -> Gain | None:
    """The speedup of all tweaks of a variant together, within what is possible.

    None where the run tells nothing of one of them, or was too short to tell anything. It is the gain per
    sample: a batch of twice the size that takes as long is a gain of 2.
    """
    step = facts.get(StepFacts)
    if step is None or too_little(step):
        return None
    if not variant.settings:
        return Gain()
    settings = {setting.tweak: setting for setting in variant.settings}
    directly = {tweak: _directly(tweak, settings, facts) for tweak in settings}
    others = [settings[tweak] for tweak, part in directly.items() if part is None]
    found = _by_findings(others, flags(variant.words), report.findings)
    if found is None:
        return None
    parts = [*(part for part in directly.values() if part is not None), *found]
    gain = _gain(settings, [part.change for part in parts], facts)
    return within(gain, {kind for part in parts for kind in part.kinds}, report.diagnosis.ceilings)


def restarts(step: StepFacts, loader: LoaderFacts) -> Estimate:
    """The share of the training time that goes if workers live on between epochs."""
    short = not loader.num_workers or loader.persistent_workers or loader.epochs < 2
    if short or not loader.epoch_start_s or step.wall_s <= 0:
        return NOTHING
    stall_s = loader.epoch_start_s - (loader.steady_wait_s or 0.0)
    removed_s = stall_s - loader.batch_s  # the first batch still has to be prepared
    share, most = (
        min(1.0, (max(0.0, seconds) + (loader.epoch_end_s or 0.0)) * (loader.epochs - 1) / step.wall_s)
        for seconds in (removed_s, stall_s)
    )
    return Estimate(SURE * share, share, most)


def of_threads(
    now: float, then: float, cores: float, per_module_s: float | None
) -> tuple[float, float, float]:
    """The speedup of computing with `then` threads instead of `now`: low, likely, high.

    More threads than cores do not compute faster (Amdahl's law for the others), and many more slow each other
    down. `per_module_s`: what a module computes, forward and backward: it tells how well it shares out.
    """
    cores = max(1.0, cores)
    ratio = min(now, cores) / min(then, cores)
    low, likely, high = sorted(
        _crowd(now, cores, case) / _crowd(then, cores, case) / (1.0 - part + part * ratio)
        for case, part in enumerate(_parallel(per_module_s))
    )
    return low, likely, high


def _parallel(per_module_s: float | None) -> tuple[float, float, float]:
    """The share of computing that threads speed up, by the size of a module's operations."""
    if per_module_s is None or LARGE_S <= per_module_s < VERY_LARGE_S:
        return PARALLEL
    return PARALLEL_OF_SMALL if per_module_s < LARGE_S else PARALLEL_OF_LARGE


def _crowd(threads: float, cores: float, case: int) -> float:
    """How much longer computing takes because so many threads share the cores."""
    return CROWDED[case] if threads >= TOO_MANY * cores else 1.0


# ---------------------------------------------------------------- what each tweak changes


def _directly(tweak: str, settings: Settings, facts: Facts) -> _Part | None:
    """What a tweak changes whose value goes into the model as it is; None for another, or without a model."""
    if tweak not in DIRECT:
        return None
    judge, kinds = DIRECT[tweak]
    if DATA in kinds and fetching(facts.get(BatchFacts)) > 0:
        kinds = (*kinds, Bottleneck.NETWORK)  # what batches wait for that come from afar
    change = judge(settings, facts)
    return None if change is None else _Part(change, kinds)


def _of_loader(facts: Facts, change: Callable[[LoaderFacts, StepModel], Change | None]) -> Change | None:
    """What changes about the training loader, if the script has one; None where it was not measured."""
    loader, model = facts.get(LoaderFacts), facts.get(StepModel)
    if loader is None and LoaderFacts not in facts.missing:
        return UNCHANGED
    return None if loader is None or model is None else change(loader, model)


def _workers(settings: Settings, facts: Facts) -> Change | None:
    count = _value(settings["workers"])

    def change(loader: LoaderFacts, model: StepModel) -> Change | None:
        if count == loader.num_workers:
            return UNCHANGED
        if loader.iterable:
            return None  # whether it shares itself out among workers is not known
        if count:
            return Change(workers=count)
        waits = model.epoch_s / model.step_s  # without workers, nothing is started at an epoch's start
        return Change(workers=0, starts=Estimate(waits, waits, waits))

    return _of_loader(facts, change)


def _prefetch(settings: Settings, facts: Facts) -> Change | None:
    depth = _value(settings["prefetch"])

    def change(loader: LoaderFacts, model: StepModel) -> Change:
        workers = _value(settings["workers"]) if "workers" in settings else loader.num_workers
        return Change(prefetch=depth) if workers else UNCHANGED

    return _of_loader(facts, change)


def _persistent(settings: Settings, facts: Facts) -> Change | None:
    step = facts.get(StepFacts)
    return _of_loader(
        facts, lambda loader, _: UNCHANGED if step is None else Change(starts=restarts(step, loader))
    )


def _threads(settings: Settings, facts: Facts) -> Change | None:
    """Nothing that a Change could hold: `_with_threads` sets the demands of computing anew."""
    alone = facts.run.device == "cpu" and facts.run.ranks == 1
    known = facts.get(ThreadFacts) is not None and facts.get(StepModel) is not None
    return UNCHANGED if alone and known else None


def _batch_size(settings: Settings, facts: Facts) -> Change | None:
    """The fixed part of a step, shared among more samples or fewer."""
    loader, sizes = facts.get(LoaderFacts), facts.get(SizeFacts)
    if loader is None or sizes is None or not loader.batch_size or facts.run.device != "cpu":
        return None
    gone = 1.0 - loader.batch_size / _value(settings["batch-size"])
    low, likely, high = sorted(share * gone for share in sizes.fixed)
    return removes(low, likely, high)


DATA, COMPUTE = Bottleneck.DATA, Bottleneck.COMPUTE
DIRECT: Mapping[str, tuple[Judge, tuple[Bottleneck, ...]]] = {
    "workers": (_workers, (DATA,)),
    "prefetch": (_prefetch, (DATA,)),
    "persistent-workers": (_persistent, (DATA,)),
    "threads": (_threads, (COMPUTE, DATA)),  # cores that training does not use, workers do
    "batch-size": (_batch_size, (COMPUTE,)),
}


def _value(setting: Setting) -> int:
    return int(setting.values["value"])


def _by_findings(
    settings: Sequence[Setting], asked: Flags, findings: Sequence[Finding]
) -> list[_Part] | None:
    """What findings say of these tweaks; None where one of them is in none.

    Of findings with the same tweak, the one that promises most: they are about the same time.
    """
    named: dict[str, Finding] = {}
    for finding in sorted(findings, key=lambda finding: finding.gain.likely):
        tweak = flags((finding.advice.tweak or "").split())
        if finding.advice.change is not None and tweak.items() <= asked.items():
            named.update(dict.fromkeys(tweak, finding))
    if any(setting.words[0] not in named for setting in settings):
        return None
    used = dict.fromkeys(named[setting.words[0]] for setting in settings)
    return [_Part(finding.advice.change or UNCHANGED, (finding.bottleneck,)) for finding in used]


def flags(words: Sequence[str]) -> Flags:
    """`--workers 4 --persistent-workers` as {"--workers": "4", "--persistent-workers": None}."""
    found: dict[str, str | None] = {}
    for word in words:
        if word.startswith("--"):
            found[word] = None
        elif found:
            found[next(reversed(found))] = word
    return found


# ---------------------------------------------------------------- the model with all of it


def _gain(settings: Settings, changes: Sequence[Change], facts: Facts) -> Gain:
    """The gain of changes together with what no Change can hold."""
    model = facts.get(StepModel)
    if model is None:
        return gain_of(None, changes)
    return model.gain_to(lambda case: _set_anew(model, settings, facts, case).step_after(changes, case))


def _set_anew(model: StepModel, settings: Settings, facts: Facts, case: int) -> StepModel:
    """The demands with another number of threads, and with workers that start again in every epoch."""
    if not model.workers and "workers" in settings and "persistent-workers" not in settings:
        model = replace(model, starts_per_step=model.epochs_per_step)
    if "threads" not in settings:
        return model
    return _with_threads(model, _value(settings["threads"]), facts, case)


def _with_threads(model: StepModel, count: int, facts: Facts, case: int) -> StepModel:
    """The demands if torch computes with `count` threads."""
    step, threads = facts.get(StepFacts), facts.get(ThreadFacts)
    if step is None or threads is None or model.compute_s <= 0:
        return model
    speedup = of_threads(threads.intra_op, count, model.cores, threads.per_module_s)[WORST - case]
    computing = min(1.0, sum(step.seconds.get(phase, 0.0) for phase in COMPUTING) / model.main_s)
    compute_s = model.compute_s * (1.0 - computing + computing / speedup)
    before, after = (max(1.0, min(number, model.cores)) for number in (threads.intra_op, count))
    cpu_s, sharing = model.compute_cpu_s, model.sharing
    if before > 1:  # the team's share of the CPU time, which it also spends waiting for work, goes with it
        own_s = min(cpu_s, model.compute_s)
        cpu_s = (own_s + (cpu_s - own_s) * (after - 1) / (before - 1)) / model.compute_s * compute_s
        sharing = replace(sharing, compute=ALONE) if after == 1 else sharing
    return replace(model, compute_s=compute_s, compute_cpu_s=cpu_s, sharing=sharing)
