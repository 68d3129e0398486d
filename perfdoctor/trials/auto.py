"""`--auto`: walk the findings by what they promise, try each on top of what is kept, keep what proves faster.

What a tweak brings depends on what is there already, so each is compared with what is kept so far, and never
with figures of another round. In the end all that is kept is compared with the original.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import field, replace

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.concluded import Finding, Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.model.note import Note, Remark
from perfdoctor.model.trial import (
    LEAST_ROUNDS,
    ORIGINAL,
    ExecutionEnd,
    Outcome,
    Place,
    Setting,
    Trial,
    Variant,
    VariantResult,
)
from perfdoctor.trials.baseline_run import BaselineRun
from perfdoctor.trials.request import Request
from perfdoctor.trials.rounds import OVER, Bench
from perfdoctor.trials.settings import flags, tweak_catalogue
from perfdoctor.trials.settings.auto_values import resolve, with_value
from perfdoctor.trials.settings.flags import VALUE
from perfdoctor.trials.statistics.speedup import NOTICEABLE
from perfdoctor.trials.statistics.verdict import BROKEN
from perfdoctor.tweaks import PATH

BACK_OFFS = 2  # halvings of the way: a value that is still slower after them was no small mistake
TOO_MUCH = (Outcome.SLOWER, Outcome.OUT_OF_MEMORY)  # what less of the same may mend
UNKNOWN = Gain(1.0, 1.0, math.inf)  # of a change that nothing is known about

Read = Callable[[Sequence[str]], Sequence[Setting]]  # words as typed; raises PerfdoctorError


@dataclass(frozen=True)
class Candidate:
    """Tweaks that are tried together, and the finding they come from; None where the user named them."""

    settings: tuple[Setting, ...]
    finding: Finding | None = None

    @property
    def name(self) -> str:
        """As on the command line."""
        return Variant(self.settings).name

    def is_in(self, base: Variant) -> bool:
        """Whether these tweaks are among others already."""
        return all(setting in base.settings for setting in self.settings)

    def on(self, base: Variant) -> Variant:
        """These tweaks in addition to others; of one tweak with two values, this one's."""
        tweaks = {setting.tweak for setting in self.settings}
        others = (setting for setting in base.settings if setting.tweak not in tweaks)
        return Variant((*others, *self.settings))


@dataclass(frozen=True)
class WalkStep:
    """One comparison of the walk."""

    verdict: VariantResult
    over: Variant  # what the variant was compared with
    kept: bool


@dataclass(frozen=True)
class Edit:
    """What a kept tweak is in the user's own code."""

    words: tuple[str, ...]
    code: str
    at: tuple[Location, ...] = ()

    @property
    def note(self) -> Note:
        """The edit as a note of the trial."""
        return Note("by-hand", {"words": " ".join(self.words), "places": self.at, "code": self.code})


def candidates(
    findings: Sequence[Finding], read: Read, named: Sequence[Variant] = ()
) -> tuple[list[Candidate], list[str]]:
    """What there is to try, and sentences on what is left out.

    `named` are variants that the user asked for: they take the place of findings with the same tweaks, and
    they alone may change the path of optimisation.
    """
    chosen = [Candidate(variant.settings) for variant in named if variant.settings]
    taken = {setting.tweak for candidate in chosen for setting in candidate.settings}
    notes = []
    for finding in findings:
        tweak = finding.advice.tweak
        if tweak is None:
            continue
        try:
            settings = tuple(read(tweak.split()))
        except PerfdoctorError as error:
            notes.append(f"{tweak} was left out: {error}")
            continue
        if taken & {setting.tweak for setting in settings}:
            continue
        if finding.advice.change is not None and finding.advice.change.is_once:
            notes.append(f"{tweak} was left out: what it saves is over before steps are measured")
            continue
        if any(setting.result == PATH for setting in settings):
            notes.append(
                f"{tweak} was left out: training would take another path. To try it as well: "
                f"perfdoctor try --auto {tweak}"
            )
            continue
        chosen.append(Candidate(settings, finding))
    return chosen, notes


@dataclass
class _Kept:
    candidate: Candidate
    verdict: VariantResult  # against what was kept before it


@dataclass
class Walk:
    """The walk so far: all comparisons in their order, and what is left standing."""

    left: list[Candidate]
    notes: list[Remark] = field(default_factory=list)
    baseline: BaselineRun | None = None
    comparisons: int = 1
    clock: Callable[[], float] = time.monotonic
    steps: list[WalkStep] = field(default_factory=list)
    standing: list[_Kept] = field(default_factory=list)
    bench: Bench = field(init=False)
    end_s: float = math.inf
    longest_s: float = 0.0
    interrupted: bool = False
    calibrated: Variant = ORIGINAL
    warnings: Sequence[Note] = ()

    @classmethod
    def of(cls, request: Request, baseline: BaselineRun | None) -> Walk:
        """Of the tweaks that the findings of a run name, and of those that are named besides.

        Raises PerfdoctorError where there is no such run, or nothing to try.
        """
        if baseline is None:
            hint = "watch the script first: perfdoctor run ..., then: perfdoctor try --auto"
            raise PerfdoctorError("no run of this command gives advice yet", hint)
        tweaks = tweak_catalogue.tweaks()
        named = resolve(request.variants, baseline.facts)
        untried, notes = candidates(baseline.report.findings, lambda words: flags.read(words, tweaks), named)
        if not untried:
            hint = "; ".join(notes) or "name tweaks to try: perfdoctor try --auto --amp"
            raise PerfdoctorError("nothing to try: no tweak can apply a finding of the run", hint)
        # Limited in time, each may take two comparisons; one more is of all that is kept.
        return cls(untried, [*notes], baseline, 2 * len(untried) + 1 if request.seconds else 1)

    @property
    def abreast(self) -> int:
        """One at a time."""
        return 1

    @property
    def variants(self) -> list[Variant]:
        """What may be tried, alone."""
        return [Variant(candidate.settings) for candidate in self.left]

    def measure(self, bench: Bench, left_s: float | None) -> Sequence[VariantResult]:
        """Try the candidates, the most promising first, until what the rest promises is lost in the noise.

        No comparison begins that would leave no time for the last one, of all that is kept against the
        original. Where one is interrupted, the walk ends with what was kept before.
        """
        self.bench = bench
        self.end_s = math.inf if left_s is None else self.clock() + left_s
        self._walk()
        self._confirm()
        if self.steps and not self.standing and not self.interrupted:
            self.notes.append(Note("nothing-faster"))
        return ()

    def complete(self, trial: Trial) -> Trial:
        """The trial with all comparisons, and a note on how each kept tweak is written into the code."""
        verdicts = [
            step.verdict if step.over == ORIGINAL else replace(step.verdict, over=step.over.words)
            for step in self.steps
        ]
        notes = (*trial.notes, *self.notes, *(edit.note for edit in self.edits))
        return replace(trial, verdicts=tuple(verdicts), kept=self.kept.words, notes=notes)

    @property
    def edits(self) -> list[Edit]:
        """What each kept tweak is in the user's own code."""
        return [_edit(step) for step in self.standing]

    @property
    def kept(self) -> Variant:
        """All that is kept."""
        return self.standing[-1].verdict.variant if self.standing else ORIGINAL

    def _walk(self) -> None:
        rest = self.left
        while not self.interrupted:
            rest = [candidate for candidate in rest if not candidate.is_in(self.kept)]
            promises = [self._promise(candidate) for candidate in rest]
            worthwhile = [
                index
                for index, gain in enumerate(promises)
                if rest[index].finding is None or gain.high > 1.0 + self._noise()
            ]
            if not worthwhile:
                self._note_rest(rest, "below-the-noise", noise=self._noise())
                break
            out = next((index for index in worthwhile if self._out_of_reach(rest[index])), None)
            if out is not None:
                self.notes.append(Note("out-of-reach", {"because": self._out_of_reach(rest.pop(out))}))
                continue
            if not self._has_time():
                self._note_rest(rest, "no-time-left")
                break
            self._try(rest.pop(max(worthwhile, key=lambda index: promises[index].likely)), len(rest))

    def _promise(self, candidate: Candidate) -> Gain:
        """What a candidate is likely to bring on top of what is kept."""
        advised = candidate.finding.gain if candidate.finding is not None else UNKNOWN
        return self._predicted(candidate.on(self.kept), self.kept) or advised

    def _out_of_reach(self, candidate: Candidate) -> str | None:
        return self.bench.out_of_reach(candidate.on(self.kept))

    def _predicted(self, variant: Variant, over: Variant) -> Gain | None:
        """What a variant is likely to bring over another: gains do not add."""
        before, after = self.bench.predict(over), self.bench.predict(variant)
        if before is None or after is None:
            return None
        low, likely, high = sorted(
            (after.low / before.low, after.likely / before.likely, after.high / before.high)
        )
        return Gain(low, likely, high)

    def _noise(self) -> float:
        """Half the width of the best interval so far, relative: a smaller gain cannot be told from none."""
        gains = [step.verdict.speedup for step in self.steps]
        widths = [gain.high / gain.likely - 1.0 for gain in gains if gain is not None]
        return max(NOTICEABLE, min(widths, default=0.0))

    def _has_time(self, comparisons: int | None = None) -> bool:
        """Whether there is time for so many; by default, for one more and what it takes to keep it."""
        wanted = comparisons or (2 if self.standing else 1)
        return self.clock() + wanted * self.longest_s <= self.end_s

    def _note_rest(self, rest: Sequence[Candidate], slug: str, **values: float) -> None:
        if rest:
            names = [candidate.name for candidate in rest]
            self.notes.append(Note(slug, {"names": names, **values}))

    def _try(self, candidate: Candidate, untried: int) -> None:
        """Keep a candidate if it proves faster on top of what is kept; where it is too much, less of it.

        `untried` are the candidates after this one.
        """
        for back_offs in range(1 + BACK_OFFS):
            verdict = self._compare(candidate.on(self.kept), self.kept, self._further(untried, back_offs))
            good = _is_good(verdict)
            self.steps.append(WalkStep(verdict, self.kept, good))
            decision = "kept" if good else "left out"
            self.bench.progress.say(f"{decision}: {candidate.name}, {_outcome(verdict)}")
            if good:
                self.standing.append(_Kept(candidate, verdict))
            less = _less(candidate, verdict) if verdict.outcome in TOO_MUCH else None
            if less is None or not self._has_time():
                return
            candidate = less

    def _further(self, untried: int, back_offs: int) -> int:
        """How many comparisons may follow: two for each candidate, and one of all that is kept."""
        is_confirmed = len(self.standing) + 1 + untried > 1
        return 2 * untried + (back_offs == 0) + is_confirmed

    def _compare(self, variant: Variant, over: Variant, further: int) -> VariantResult:
        """Compare within this one's part of the time that is left, where it is limited."""
        began_s = self.clock()
        left_s = self.end_s - began_s
        budget_s = left_s / (1 + further) / (1.0 + OVER) if math.isfinite(left_s) else None
        (verdict,) = self.bench.compare([variant], over, budget_s)
        verdict = replace(verdict, predicted=self._predicted(variant, over))
        self.longest_s = max(self.longest_s, self.clock() - began_s)
        if verdict.outcome is Outcome.NOT_MEASURED and self._cut_short(verdict):
            self.interrupted = True
            self.notes.append(Note("walk-ended", {"variant": variant.name, "because": verdict.because}))
        return verdict

    def _cut_short(self, verdict: VariantResult) -> bool:
        """Whether a comparison lacks rounds: others tell nothing where samples, say, cannot be counted."""
        measured = [each for each in verdict.executions if each.ending is ExecutionEnd.MEASURED]
        return self.bench.interrupted or bool(self.bench.trouble) or len(measured) < LEAST_ROUNDS

    def _confirm(self) -> None:
        """Compare all that is kept with the original, without the last of it as long as it is not faster."""
        while len(self.standing) > 1:
            if self.interrupted or not self._has_time(1):
                self.notes.append(Note("not-confirmed"))
                return
            verdict = self._compare(self.kept, ORIGINAL, further=len(self.standing) - 2)
            good = _is_good(verdict)
            self.steps.append(WalkStep(verdict, ORIGINAL, good))
            if good:
                return
            if verdict.outcome is Outcome.NOT_MEASURED:
                self.notes.append(Note("not-confirmed"))
                return
            last = self.standing.pop().candidate.name
            undone = {"tweak": last, "variant": verdict.variant.name, "outcome": _outcome(verdict)}
            self.notes.append(Note("undone", undone))


def _is_good(verdict: VariantResult) -> bool:
    equivalence = verdict.equivalence
    if any(execution.ending in BROKEN for execution in verdict.executions):
        return False  # in a later round: what may fail is not kept
    return verdict.outcome is Outcome.FASTER and (equivalence is None or equivalence.same is not False)


def _outcome(verdict: VariantResult) -> str:
    if verdict.outcome is Outcome.FASTER and verdict.speedup is not None:
        return f"{verdict.speedup.likely:.2f} times as fast"
    return f"{verdict.outcome.value}: {verdict.because}"


def _less(candidate: Candidate, verdict: VariantResult) -> Candidate | None:
    """Half the way back to what it was; None where no number is left on that way."""
    for index, setting in enumerate(candidate.settings):
        value = setting.values.get(VALUE)
        if not isinstance(value, int):
            continue
        was = next((place.was for place in _places(verdict, setting.tweak) if isinstance(place.was, int)), 0)
        half = (value + was) // 2
        if half in (value, was) or half < tweak_catalogue.declared(setting.tweak).takes.low:
            return None
        settings = list(candidate.settings)
        settings[index] = with_value(setting, half)
        return Candidate(tuple(settings), None)
    return None


def _places(verdict: VariantResult, *tweaks: str) -> list[Place]:
    """Where these tweaks changed something."""
    applied = verdict.executions[-1].applied if verdict.executions else ()
    return [place for place in applied if place.tweak in tweaks]


def _edit(step: _Kept) -> Edit:
    """The change by hand: as the finding says, else what the tweaks changed where."""
    candidate = step.candidate
    places = _places(step.verdict, *(setting.tweak for setting in candidate.settings))
    at = tuple(dict.fromkeys(place.at for place in places if place.at is not None))
    words = Variant(candidate.settings).words
    if candidate.finding is not None and candidate.finding.advice.code is not None:
        advice = candidate.finding.advice
        return Edit(words, advice.code or "", advice.at or at)
    return Edit(words, "\n".join(dict.fromkeys(_changed(place) for place in places)), at)


def _changed(place: Place) -> str:
    return f"{place.what}: {place.was} -> {place.now}" if place.now is not None else place.what
