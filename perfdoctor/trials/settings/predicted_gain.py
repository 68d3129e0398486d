"""Predicts the gain of a variant before it is tried: of all its tweaks together.

What a tweak changes it says itself, by numbers that are put into the model of the step as they are asked for,
also where that makes it slower. Of a tweak that says nothing, the findings that name it tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from perfdoctor.diagnosis.calibration import PartialGain, settings_on
from perfdoctor.diagnosis.combination import Saving, together
from perfdoctor.diagnosis.findings import machine_of
from perfdoctor.diagnosis.gains import calibrated, gain_of, within
from perfdoctor.diagnosis.other_time import COMPUTING
from perfdoctor.diagnosis.verdict import fetching, too_little
from perfdoctor.facts.gather import Facts
from perfdoctor.facts.predict.step_model import StepModel
from perfdoctor.facts.predict.thread_speedup import with_threads
from perfdoctor.facts.predict.thread_team import ThreadTeam
from perfdoctor.model.batch import BatchFacts
from perfdoctor.model.change import Change
from perfdoctor.model.concluded import Bottleneck, Finding, Gain
from perfdoctor.model.measured import StepFacts, ThreadFacts
from perfdoctor.model.report import Report
from perfdoctor.model.trial import ModelledGain, Setting, Variant
from perfdoctor.trials.settings import tweak_catalogue
from perfdoctor.trials.settings.flags import VALUE
from perfdoctor.trials.settings.tweak_facts import Prediction, TweakFacts

Flags = Mapping[str, "str | None"]  # each with its value


def predict(variant: Variant, facts: Facts, report: Report) -> Gain | None:
    """The speedup of all tweaks of a variant together, within what is possible.

    None where the run tells nothing of one of them, or was too short to tell anything. It is the gain per
    sample: a batch of twice the size that takes as long is a gain of 2.
    """
    found = _by_model(variant, facts, report)
    if found is None:
        return None
    gain, savings, published = found
    machine = machine_of(facts)
    return calibrated(
        gain,
        [PartialGain(kind, gain, saving.change.is_setting) for saving in savings for kind in saving.kinds],
        report.diagnosis.bounds,
        machine.by_kind,
        published=published,
        checked=settings_on(machine.device),
    )


def modelled(variant: Variant, facts: Facts, report: Report) -> ModelledGain | None:
    """What `predict` begins with: the gain in a range that nothing has widened."""
    found = _by_model(variant, facts, report)
    if found is None:
        return None
    gain, savings, _ = found
    kinds = {kind for saving in savings for kind in saving.kinds}
    acts_on = tuple(kind for kind in Bottleneck if kind in kinds)
    return ModelledGain(within(gain, kinds, report.diagnosis.bounds), acts_on, facts.run.device)


def _by_model(variant: Variant, facts: Facts, report: Report) -> tuple[Gain, Sequence[Saving], bool] | None:
    """The gain by the step model alone, what it consists of, and whether its range is published."""
    step = facts.get(StepFacts)
    if step is None or too_little(step):
        return None
    if not variant.settings:
        return Gain(), (), False
    requested = {setting.words[0]: setting.values.get(VALUE, True) for setting in variant.settings}
    predictions = [_prediction(setting, TweakFacts(facts, requested)) for setting in variant.settings]
    both = list(zip(variant.settings, predictions, strict=True))
    silent = [setting for setting, prediction in both if prediction is None or prediction.is_advised]
    advised = _by_findings(silent, flags(variant.words), report.findings)
    if advised is None:
        return None
    direct = [
        Saving(prediction.change, _kinds(setting, facts))
        for setting, prediction in both
        if prediction is not None and not prediction.is_advised
    ]
    parts = [*direct, *advised]
    gain = _gain(
        [prediction for prediction in predictions if prediction is not None],
        [together(parts, report.diagnosis.classes)] if parts else [],
        facts,
    )
    published = len(parts) == 1 and parts[0].change.is_published
    return gain, parts, published


def _prediction(setting: Setting, run: TweakFacts) -> Prediction | None:
    """What a tweak says that it changes; None where it says nothing."""
    judge = tweak_catalogue.declared(setting.tweak).predict
    if judge is None:
        return None
    values = [setting.values[VALUE]] if VALUE in setting.values else []
    prediction: Prediction | None = judge(run, *values)
    return prediction


def _kinds(setting: Setting, facts: Facts) -> tuple[Bottleneck, ...]:
    """The classes whose time a tweak takes away."""
    kinds = tuple(map(Bottleneck, tweak_catalogue.declared(setting.tweak).acts_on))
    if Bottleneck.DATA in kinds and fetching(facts.get(BatchFacts)) > 0:
        return (*kinds, Bottleneck.NETWORK)  # what batches wait for that come from afar
    return kinds


def _by_findings(
    settings: Sequence[Setting], requested: Flags, findings: Sequence[Finding]
) -> list[Saving] | None:
    """What findings say of these tweaks; None where one of them is in none.

    Of findings with the same tweak, the one that promises most: they are about the same time. One whose time
    is a cost of the run's beginning says nothing of settled steps, which are what a trial measures.
    """
    by_flag: dict[str, Finding] = {}
    for finding in sorted(findings, key=lambda finding: finding.gain.likely):
        tweak, change = flags((finding.advice.tweak or "").split()), finding.advice.change
        if change is not None and not change.is_once and tweak.items() <= requested.items():
            by_flag.update(dict.fromkeys(tweak, finding))
    if any(setting.words[0] not in by_flag for setting in settings):
        return None
    used = dict.fromkeys(by_flag[setting.words[0]] for setting in settings)
    return [
        Saving(finding.advice.change or Change(), (finding.bottleneck, *finding.advice.also))
        for finding in used
    ]


def flags(words: Sequence[str]) -> Flags:
    """`--workers 4 --persistent-workers` as {"--workers": "4", "--persistent-workers": None}."""
    parsed: dict[str, str | None] = {}
    for word in words:
        if word.startswith("--"):
            parsed[word] = None
        elif parsed:
            parsed[next(reversed(parsed))] = word
    return parsed


# ---------------------------------------------------------------- the model with all of it


def _gain(predictions: Sequence[Prediction], changes: Sequence[Change], facts: Facts) -> Gain:
    """The gain of changes together with what no Change can hold."""
    model = facts.get(StepModel)
    if model is None:
        return gain_of(None, changes)
    return model.gain_to(lambda case: _set_anew(model, predictions, facts, case).step_after(changes, case))


def _set_anew(model: StepModel, predictions: Sequence[Prediction], facts: Facts, case: int) -> StepModel:
    """The demands with another number of threads, and with workers that start again in every epoch."""
    if not model.workers and any(prediction.restarts for prediction in predictions):
        model = replace(model, starts_per_step=model.epochs_per_step, goes_on=1.0)
    count = next((prediction.threads for prediction in predictions if prediction.threads is not None), None)
    step, threads = facts.get(StepFacts), facts.get(ThreadFacts)
    if count is None or step is None or threads is None or model.compute_s <= 0:
        return model
    computing = min(1.0, sum(step.seconds.get(phase, 0.0) for phase in COMPUTING) / model.main_s)
    team = facts.get(ThreadTeam)
    # beside workers, the model knows what they take from the team
    crowded = team is not None and not model.workers and team.is_held_up
    speedups = team.speedups(count) if team is not None and crowded else None
    return with_threads(model, count, threads, computing, case, speedups)
