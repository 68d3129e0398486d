"""Judges a run by every tip: ranked findings, with gains no larger than their class of time allows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from perfdoctor.diagnosis.calibration import (
    PartialGain,
    fitted_here,
    least,
    widening,
)
from perfdoctor.diagnosis.combination import Saving, by_kinds, in_all, largest, together
from perfdoctor.diagnosis.gains import at_most, beside_host, bound_of, calibrated, gain_of, waited_for
from perfdoctor.diagnosis.same_work import Advised, whose_turn, without_rivals, without_spared
from perfdoctor.diagnosis.verdict import WORTHWHILE, TimeAttribution, unjudgeable
from perfdoctor.facts.device.device import DeviceFacts, without
from perfdoctor.facts.gather import Facts
from perfdoctor.facts.predict.step_model import StepModel
from perfdoctor.model.change import NOTHING, Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck, Finding, Gain, NotJudged
from perfdoctor.model.coverage import Covered
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.note import Note
from perfdoctor.model.own_failure import OwnFailure
from perfdoctor.model.tip import Tip
from perfdoctor.model.widening import MachineRanges, Widening
from perfdoctor.own_failures import contained

SMALL = 1.02  # a likely speedup below this drowns in the noise of any trial: a note, not a finding
COMBINED = 3  # findings that a user takes on at once
OVERTAKEN = 0.5  # of its gain is left to a finding beside a better one: with less, it says so
# What a gain is worth beside others, by the effort it takes: a flag is tried in a minute, a rewrite in a day.
WORTH = {Effort.FLAG: 1.0, Effort.LINES: 0.9, Effort.REWRITE: 0.6}
RISKY = 0.8  # of its worth is left to a change that can alter what the training learns


@dataclass(frozen=True)
class Judgement:
    """What the catalogue has to say about a run."""

    findings: tuple[Finding, ...] = ()
    not_judged: tuple[NotJudged, ...] = ()
    notes: tuple[Note, ...] = ()  # on gains too small to rank, and on what is a matter of choice
    together: Gain | None = None  # the first findings in combination
    failures: tuple[OwnFailure, ...] = ()  # tips that could not be judged for a defect of ours


def judge(tips: Sequence[Tip], facts: Facts, attribution: TimeAttribution | None) -> Judgement:
    """Ask every tip that has what it needs; general ones last, about time that no other finding is about.

    A general finding is ranked behind the others, but before those that cannot bring what it likely does.
    Ranges are widened to what measured gains ask for.

    A tip that raises is a defect of ours: it is not judged, and the failure is told.
    """
    failures: list[OwnFailure] = []
    specific = [tip for tip in tips if not tip.heading.general]
    advised, not_judged = _ask(specific, facts, attribution, failures)
    found = _worthwhile(advised)
    worthwhile, rivals = without_rivals([entry for entry in found if not entry[1].is_choice])
    covered = Covered.by(advice for _, advice, _ in worthwhile)
    knowing = replace(facts, groups={**facts.groups, Covered: covered})
    general, also_not_judged = _ask(
        [tip for tip in tips if tip.heading.general], knowing, attribution, failures
    )
    notes = (*rivals, *_choices(found), *_small_things(advised))
    if attribution is None:
        return Judgement((), (*not_judged, *also_not_judged), notes, failures=tuple(failures))
    machine = machine_of(facts)
    run = _Judged(facts.get(StepModel), attribution, machine, waited_for(facts.get(DeviceFacts)))
    ranked = _Ranking(run).of(worthwhile)
    for entry in _worthwhile(general):
        ranked.insert(_place_of(entry, ranked), entry)
    findings = tuple(
        Finding(
            tip.id, rank, _kind(tip, advice), tip.title, advice, gain, tip.heading.checked_for(machine.device)
        )
        for rank, (tip, advice, gain) in enumerate(ranked, 1)
    )
    return Judgement(
        findings,
        (*not_judged, *also_not_judged),
        (*notes, *_wide_ranges(ranked, machine), *_machine_ranges(ranked, machine)),
        _together(run, ranked),
        tuple(failures),
    )


def _place_of(general: Advised, ranked: Sequence[Advised]) -> int:
    """Where a general finding stands: before the last ones, if none of them can bring what it likely does."""
    _, _, gain = general
    smaller = takewhile(
        lambda entry: entry[1].change is not None and entry[2].high < gain.likely, reversed(ranked)
    )
    return len(ranked) - sum(1 for _ in smaller)


def _ask(
    tips: Sequence[Tip], facts: Facts, attribution: TimeAttribution | None, failures: list[OwnFailure]
) -> tuple[list[Advised], list[NotJudged]]:
    """What these tips advise, what is worth most first, and those that could not be judged."""
    advised: list[Advised] = []
    not_judged = []
    model = facts.get(StepModel)
    for tip in tips:
        why_not = _why_not(tip, facts, attribution)
        if why_not:
            not_judged.append(NotJudged(tip.id, why_not))
        groups = {name: facts.get(kind) for name, kind in tip.needs.items()}
        if why_not or attribution is None or None in groups.values():
            continue  # neither there nor missing: no loader, no checkpoint, nothing to advise on
        with contained(f"the tip {tip.id}", failures):
            advice = tip.judge(**groups)
            if advice is not None:
                told = _as_told(tip, advice, facts)
                advised.append((tip, told, _gain(tip, told, model, attribution, machine_of(facts))))
    return sorted(advised, key=lambda entry: (-_worth(*entry), entry[0].id)), not_judged


def _as_told(tip: Tip, advice: Advice, facts: Facts) -> Advice:
    """With what goes beside the host; and by hand, as arguments where a trainer makes the calls."""
    if tip.heading.kernels_only and advice.change is not None:
        advice = replace(advice, change=beside_host(advice.change, facts.get(DeviceFacts)))
    if advice.arguments is None or facts.run.trainer is None:
        return advice
    return replace(advice, code=f"TrainingArguments(..., {advice.arguments})")


def _gain(
    tip: Tip, advice: Advice, model: StepModel | None, attribution: TimeAttribution, machine: MachineRanges
) -> Gain:
    """What one advice brings."""
    gain = gain_of(model, [advice.change] if advice.change else [])
    return calibrated(
        gain,
        [_part(tip, advice, gain)],
        attribution.bounds,
        _fitted_here(tip, machine),
        published=advice.change is not None and advice.change.is_published,
        checked=tip.heading.checked_for(machine.device),
        also=advice.also,
        takes=advice.takes,
    )


def _part(tip: Tip, advice: Advice, gain: Gain) -> PartialGain:
    is_setting = advice.change is None or advice.change.is_setting
    return PartialGain(_kind(tip, advice), gain, is_setting, advice.gains_like)


def _worthwhile(advised: Sequence[Advised]) -> list[Advised]:
    return [entry for entry in advised if entry[1].change is None or not _is_small(entry[2])]


def _is_small(gain: Gain) -> bool:
    """Whether it drowns in noise or, with a slowdown within its range, is too little to change a verdict."""
    return gain.likely < SMALL or (gain.low < 1.0 and 1.0 - 1.0 / gain.likely < WORTHWHILE)


def _kind(tip: Tip, advice: Advice) -> Bottleneck:
    return advice.bottleneck or tip.bottleneck


def _kinds(tip: Tip, advice: Advice) -> tuple[Bottleneck, ...]:
    """All classes of time that an advice acts on, the one that it is told under first."""
    return (_kind(tip, advice), *advice.also)


@dataclass(frozen=True)
class _Judged:
    """What the gains of a run's findings, made together, depend on."""

    model: StepModel | None
    attribution: TimeAttribution
    machine: MachineRanges
    waited: Estimate | None  # what all shorter kernels take together; None: as much as each of them does


@dataclass
class _Ranking:
    """Ranks findings, each by what it adds to those before it.

    Of several ways to save the same seconds the best comes first, and the others after whatever saves other
    ones: beside it they bring less than alone. What spares work comes before what makes it quicker.
    """

    run: _Judged

    def of(self, advised: Sequence[Advised]) -> list[Advised]:
        """All of them in their order; what has little left beside the ones before it says so."""
        left, ranked = list(advised), list[Advised]()
        while left:
            ready = whose_turn(left)
            adds = {entry[0].id: self._beside(ranked, entry) for entry in ready}
            best = max(ready, key=lambda entry: _worth_of(adds[entry[0].id], entry[0], entry[1]))
            left.remove(best)
            ranked.append(self._said(best, ranked, adds[best[0].id]))
        return ranked

    def _beside(self, others: Sequence[Advised], entry: Advised) -> float:
        """The likely speedup that a finding adds to that of others."""
        changing = [other for other in others if other[1].change is not None]
        if not changing or entry[1].change is None:
            return entry[2].likely
        return self._likely([*changing, entry]) / self._likely(changing)

    def _likely(self, advised: Sequence[Advised]) -> float:
        return _in_combination(self.run, advised).likely

    def _said(self, entry: Advised, before: Sequence[Advised], added: float) -> Advised:
        """The finding, with what is left of its gain where those before it take most of that."""
        tip, advice, gain = entry
        if advice.change is None or not before or added - 1.0 >= OVERTAKEN * (gain.likely - 1.0):
            return entry
        first = min(before, key=lambda other: self._beside([other], entry))
        beside = max(1.0, self._beside([first], entry))
        left = f'once "{first[0].title}" is done, this brings {beside:.2f}x'
        return tip, replace(advice, because=(*advice.because, left)), gain


def _choices(advised: Sequence[Advised]) -> list[Note]:
    """What is a matter of choice, each in a sentence."""
    return [
        Note("choice", {"title": tip.title, "gain": gain.likely, "tip": tip.id})
        for tip, advice, gain in advised
        if advice.is_choice
    ]


def _small_things(advised: Sequence[Advised]) -> list[Note]:
    """What would bring less than is worth a place of its own, in one sentence."""
    small = [
        f"{tip.title[0].lower()}{tip.title[1:]} ({gain.likely:.2f}x)"
        for tip, advice, gain in advised
        if gain.likely > 1.0 and _is_small(gain) and advice.change is not None
    ]
    return [Note("small-gains", {"gains": ", ".join(small)})] if small else []


def _wide_ranges(ranked: Sequence[Advised], machine: MachineRanges) -> list[Note]:
    """Which findings have ranges that rest on too few measured gains."""
    guessed = [
        str(rank)
        for rank, (tip, advice, _) in enumerate(ranked, 1)
        if advice.change is not None
        and not _is_published(tip, advice, machine)
        and not _is_known(tip, advice, machine)
    ]
    return [Note("wide-ranges", {"ranks": ", ".join(guessed)})] if guessed else []


def _is_known(tip: Tip, advice: Advice, machine: MachineRanges) -> bool:
    checked = tip.heading.checked_for(machine.device)
    return widening((_kind(tip, advice),), checked, _fitted_here(tip, machine)).is_known


def _is_published(tip: Tip, advice: Advice, machine: MachineRanges) -> bool:
    """Whether an advice's own range holds published gains, and the machine's trials know no better."""
    known_here = _kind(tip, advice) in _fitted_here(tip, machine)
    return advice.change is not None and advice.change.is_published and not known_here


def _machine_ranges(ranked: Sequence[Advised], machine: MachineRanges) -> list[Note]:
    """Which kinds of findings have ranges that rest on trials of the run's own machine."""
    used = {
        kind: _fitted_here(tip, machine)[kind]
        for tip, advice, _ in ranked
        if advice.change is not None and (kind := _kind(tip, advice)) in _fitted_here(tip, machine)
    }
    return [
        Note("machine-ranges", {"kind": kind.value, "cases": used[kind].cases})
        for kind in Bottleneck
        if kind in used
    ]


def _fitted_here(tip: Tip, machine: MachineRanges) -> Mapping[Bottleneck, Widening]:
    return fitted_here([tip.heading.effort], machine)


def _worth(tip: Tip, advice: Advice, gain: Gain) -> float:
    return _worth_of(gain.likely, tip, advice)


def _worth_of(likely: float, tip: Tip, advice: Advice) -> float:
    """What a finding is ranked by: its likely gain, less for effort and for risk."""
    return (likely - 1.0) * WORTH[tip.heading.effort] * (1.0 if advice.same_result else RISKY)


def machine_of(facts: Facts) -> MachineRanges:
    """What the run was watched on, and what is known of that machine's ranges."""
    return facts.get(MachineRanges) or MachineRanges(facts.run.device)


def _in_combination(run: _Judged, advised: Sequence[Advised]) -> Gain:
    """What several changes bring together, within what their classes take."""
    advised = without_spared(advised)
    gain = gain_of(run.model, [_as_one(run, advised)])
    alone = [_part(*each) for each in advised if each[1].change]
    here = fitted_here((tip.heading.effort for tip, *_ in advised), run.machine)
    checked = least(tip.heading.checked_for(run.machine.device) for tip, *_ in advised)
    also = [kind for _, advice, _ in advised for kind in advice.also]
    return calibrated(gain, alone, run.attribution.bounds, here, checked=checked, also=also)


def _as_one(run: _Judged, advised: Sequence[Advised]) -> Change:
    """Several changes as one; those that shorten kernels add no more than is waited for them."""
    parts = [(tip, Saving(each.change, _kinds(tip, each))) for tip, each, _ in advised if each.change]
    classes = run.attribution.classes
    whole = together([part for _, part in parts], classes)
    if run.waited is None:
        return whole
    others = [part for tip, part in parts if not tip.heading.kernels_only]
    beside = together(others, classes).step if others else NOTHING
    return replace(whole, step=at_most(whole.step, run.waited, beside))


def _together(run: _Judged, advised: Sequence[Advised]) -> Gain | None:
    """What the first findings bring in combination, within what their classes take; None if there is one."""
    first = without_spared([entry for entry in advised if entry[1].change is not None])[:COMBINED]
    if len(first) < 2:
        return None
    gain = _in_combination(run, first)
    alone = [gain for *_, gain in first]
    bound = _bound(run, first)
    likely = max(min(gain.likely, bound.likely), *(each.likely for each in alone))
    # that all of them bring their best, and act on seconds of their own, is rarer than that one of them does
    at_best = math.prod(each.high for each in alone)
    high = max(likely, min(gain.high, bound.high, at_best), *(each.high for each in alone))
    return Gain(min(gain.low, bound.low), likely, high)


def _bound(run: _Judged, advised: Sequence[Advised]) -> Gain:
    """What these may bring together by what each brings: time of a class that none of them takes stays.

    Of one class, at worst all act on the same seconds, and likely on others, as far as the class has them.
    What is waited for kernels is given once, to all that shorten some.
    """
    of_all = _taken(advised, run.attribution.bounds)
    shorter = [entry for entry in advised if entry[0].heading.kernels_only]
    if run.waited is not None and shorter:
        others = [entry for entry in advised if not entry[0].heading.kernels_only]
        most = largest([run.waited, *(_gone(gain) for *_, gain in shorter)])
        of_all = at_most(of_all, most, _taken(others, run.attribution.bounds))
    return without(of_all.low, of_all.likely, of_all.high)


def _taken(advised: Sequence[Advised], bounds: Mapping[Bottleneck, float]) -> Estimate:
    """What these take of the step together, by what each brings."""
    groups = by_kinds((_kinds(tip, advice), _gone(gain)) for tip, advice, gain in advised)

    def pool(kinds: Iterable[Bottleneck]) -> float:
        return 1.0 - 1.0 / bound_of(kinds, bounds)

    def taken(kinds: Iterable[Bottleneck], gone: Sequence[Estimate]) -> Estimate:
        low, likely, high = (
            min(pool(kinds), how(getattr(share, case) for share in gone))
            for case, how in (("low", max), ("likely", sum), ("high", sum))
        )
        return Estimate(low, likely, high)

    return in_all({kinds: taken(kinds, gone) for kinds, gone in groups.items()}, pool)


def _gone(gain: Gain) -> Estimate:
    """The share of the step that goes with a gain."""
    low, likely, high = (max(0.0, 1.0 - 1.0 / getattr(gain, case)) for case in ("low", "likely", "high"))
    return Estimate(low, likely, high)


def _why_not(tip: Tip, facts: Facts, attribution: TimeAttribution | None) -> str | None:
    """Why a tip cannot be judged, or None."""
    missing = [missing for kind in tip.needs.values() if (missing := facts.missing(kind)) is not None]
    if missing:
        return "; ".join(dict.fromkeys(each.reason for each in missing))
    return "nothing was timed" if attribution is None else unjudgeable(facts)
