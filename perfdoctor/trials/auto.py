"""`--auto`: walk the findings by what they promise, try each on top of what is kept, keep what proves faster.

What a tweak brings depends on what is there already, so each is compared with what is kept so far, and never
with figures of another round. In the end all that is kept is compared with the original.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model import Finding, Gain, Location
from perfdoctor.probe.tweak import PATH
from perfdoctor.trial import ORIGINAL, Outcome, Place, Setting, Trial, Variant, Verdict
from perfdoctor.trials.flags import VALUE
from perfdoctor.trials.ratios import NOTICEABLE
from perfdoctor.trials.settle import with_value

BACK_OFFS = 2  # halvings of the way: a value that is still slower after them was no small mistake
TOO_MUCH = (Outcome.SLOWER, Outcome.OUT_OF_MEMORY)  # what less of the same may mend
UNKNOWN = Gain(1.0, 1.0, math.inf)  # of a change that nothing is known about

Measure = Callable[[Variant, Variant], Verdict]  # a variant, and what is executed in the same rounds
Read = Callable[[Sequence[str]], Sequence[Setting]]  # words as typed; raises PerfdoctorError
Predict = Callable[[Variant], "Gain | None"]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Candidate:
    """Tweaks that are tried together, and the finding they come from; None where the user named them."""

    settings: tuple[Setting, ...]
    finding: Finding | None = None

    @property
    def name(self) -> str:
        """As on the command line."""
        return Variant(self.settings).name

    def is_in(self, kept: Variant) -> bool:
        """Whether these tweaks are among others already."""
        return all(setting in kept.settings for setting in self.settings)

    def on(self, kept: Variant) -> Variant:
        """These tweaks in addition to others; of one tweak with two values, this one's."""
        own = {setting.tweak for setting in self.settings}
        return Variant((*(setting for setting in kept.settings if setting.tweak not in own), *self.settings))


@dataclass(frozen=True)
class Step:
    """One comparison of the walk."""

    verdict: Verdict
    over: Variant  # what the variant was compared with
    kept: bool


@dataclass(frozen=True)
class Edit:
    """What a kept tweak is in the user's own code."""

    words: tuple[str, ...]
    code: str
    at: tuple[Location, ...] = ()

    def __str__(self) -> str:
        where = ", ".join(f"{at.file}:{at.line}" for at in self.at)
        return f"{' '.join(self.words)} by hand{f' ({where})' if where else ''}: {self.code}"


@dataclass(frozen=True)
class Walk:
    """All comparisons in their order, and what is left standing in the end."""

    steps: tuple[Step, ...] = ()
    kept: Variant = ORIGINAL
    total: Verdict | None = None  # of all that is kept, against the original; None: not measured
    edits: tuple[Edit, ...] = ()
    notes: tuple[str, ...] = ()


def candidates(
    findings: Sequence[Finding], read: Read, named: Sequence[Variant] = ()
) -> tuple[list[Candidate], list[str]]:
    """What there is to try, and sentences on what is left out.

    `named` are variants that the user asked for: they take the place of findings with the same tweaks, and
    they alone may change the path of optimisation.
    """
    found = [Candidate(variant.settings) for variant in named if variant.settings]
    taken = {setting.tweak for candidate in found for setting in candidate.settings}
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
        if any(setting.result == PATH for setting in settings):
            notes.append(
                f"{tweak} was left out: training would take another path. To have it tried as well: "
                f"perfdoctor try --auto {tweak}"
            )
            continue
        found.append(Candidate(settings, finding))
    return found, notes


def walk(
    found: Sequence[Candidate],
    measure: Measure,
    predict: Predict,
    say: Say,
    seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Walk:
    """Try the candidates, the most promising first, until what the rest promises is lost in the noise.

    `seconds`: no comparison begins that would leave no time for the last one, of all that is kept against the
    original. Where one is interrupted, the walk ends with what was kept before.
    """
    if not found:
        why = "nothing to try: no finding can be applied by a tweak"
        say(why)
        return Walk(notes=(why,))
    end_s = math.inf if seconds is None else clock() + seconds
    return _Walker(measure, predict, say, clock, end_s).walk(list(found))


def into(walked: Walk, trial: Trial) -> Trial:
    """The trial with all that the walk found, and a note on how each kept tweak is written into the code."""
    verdicts = [
        step.verdict if step.over == ORIGINAL else replace(step.verdict, over=step.over.words)
        for step in walked.steps
    ]
    notes = (*trial.notes, *walked.notes, *map(str, walked.edits))
    return replace(trial, verdicts=tuple(verdicts), kept=walked.kept.words, notes=notes)


@dataclass
class _Kept:
    candidate: Candidate
    verdict: Verdict  # against what was kept before it


@dataclass
class _Walker:
    """The walk so far."""

    measure: Measure
    predict: Predict
    say: Say
    clock: Callable[[], float]
    end_s: float
    steps: list[Step] = field(default_factory=list)
    kept: list[_Kept] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    longest_s: float = 0.0
    interrupted: bool = False

    @property
    def base(self) -> Variant:
        """All that is kept."""
        return self.kept[-1].verdict.variant if self.kept else ORIGINAL

    def walk(self, left: list[Candidate]) -> Walk:
        """Try what is left, and then all that was kept together."""
        while not self.interrupted:
            left = [candidate for candidate in left if not candidate.is_in(self.base)]
            promises = [self._promise(candidate) for candidate in left]
            worthwhile = [
                index
                for index, gain in enumerate(promises)
                if left[index].finding is None or gain.high > 1.0 + self._noise()
            ]
            if not worthwhile:
                self._note_rest(left, f"less is promised than can be told here ({self._noise():.1%})")
                break
            if not self._has_time():
                self._note_rest(left, "no time was left")
                break
            self._try(left.pop(max(worthwhile, key=lambda index: promises[index].likely)))
        total = self._total()
        if self.steps and not self.kept and not self.interrupted:
            self.notes.append("nothing that was tried is faster beyond the noise, with the same result")
        edits = tuple(_edit(kept) for kept in self.kept)
        return Walk(tuple(self.steps), self.base, total, edits, tuple(self.notes))

    def _promise(self, candidate: Candidate) -> Gain:
        """What a candidate is likely to bring on top of what is kept."""
        known = candidate.finding.gain if candidate.finding is not None else UNKNOWN
        return self._predicted(candidate.on(self.base), self.base) or known

    def _predicted(self, variant: Variant, over: Variant) -> Gain | None:
        """What a variant is likely to bring over another: gains do not add."""
        before, after = self.predict(over), self.predict(variant)
        if before is None or after is None:
            return None
        low, likely, high = sorted(
            (after.low / before.low, after.likely / before.likely, after.high / before.high)
        )
        return Gain(low, likely, high)

    def _noise(self) -> float:
        """Half the width of the best interval so far, relative: a smaller gain cannot be told from none."""
        found = [step.verdict.speedup for step in self.steps]
        widths = [gain.high / gain.likely - 1.0 for gain in found if gain is not None]
        return max(NOTICEABLE, min(widths, default=0.0))

    def _has_time(self, comparisons: int | None = None) -> bool:
        """Whether there is time for so many; by default, for one more and what it takes to keep it."""
        wanted = comparisons or (2 if self.kept else 1)
        return self.clock() + wanted * self.longest_s <= self.end_s

    def _note_rest(self, left: Sequence[Candidate], why: str) -> None:
        if left:
            self.notes.append(f"not tried: {', '.join(candidate.name for candidate in left)}: {why}")

    def _try(self, candidate: Candidate) -> None:
        """Keep a candidate if it proves faster on top of what is kept; where it is too much, less of it."""
        for _ in range(1 + BACK_OFFS):
            verdict = self._compare(candidate.on(self.base), self.base)
            good = _is_good(verdict)
            self.steps.append(Step(verdict, self.base, good))
            self.say(f"{'kept' if good else 'left out'}: {candidate.name}, {_outcome(verdict)}")
            if good:
                self.kept.append(_Kept(candidate, verdict))
            less = _less(candidate, verdict) if verdict.outcome in TOO_MUCH else None
            if less is None or not self._has_time():
                return
            candidate = less

    def _compare(self, variant: Variant, over: Variant) -> Verdict:
        began_s = self.clock()
        verdict = replace(self.measure(variant, over), predicted=self._predicted(variant, over))
        self.longest_s = max(self.longest_s, self.clock() - began_s)
        if verdict.outcome is Outcome.NOT_MEASURED:
            self.interrupted = True
            self.notes.append(f"the walk ended at {variant.name}: {verdict.because}")
        return verdict

    def _total(self) -> Verdict | None:
        """All that is kept against the original, without the last of it as long as it is not faster."""
        while len(self.kept) > 1:
            if self.interrupted or not self._has_time(1):
                self.notes.append("all that is kept was not compared with the original as a whole")
                return None
            verdict = self._compare(self.base, ORIGINAL)
            good = _is_good(verdict)
            self.steps.append(Step(verdict, ORIGINAL, good))
            if good:
                return verdict
            if verdict.outcome is not Outcome.NOT_MEASURED:
                last = self.kept.pop().candidate.name
                self.notes.append(f"{last} was taken back: {verdict.variant.name}, {_outcome(verdict)}")
        return self.kept[0].verdict if len(self.kept) == 1 else None


def _is_good(verdict: Verdict) -> bool:
    agreement = verdict.agreement
    return verdict.outcome is Outcome.FASTER and (agreement is None or agreement.same is not False)


def _outcome(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.FASTER and verdict.speedup is not None:
        return f"{verdict.speedup.likely:.2f} times as fast"
    return f"{verdict.outcome.value}: {verdict.because}"


def _less(candidate: Candidate, verdict: Verdict) -> Candidate | None:
    """Half the way back to what it was; None where no number is left on that way."""
    for index, setting in enumerate(candidate.settings):
        value = setting.values.get(VALUE)
        if not isinstance(value, int):
            continue
        was = next((place.was for place in _places(verdict, setting.tweak) if isinstance(place.was, int)), 0)
        half = (value + was) // 2
        if half in (value, was):
            return None
        settings = list(candidate.settings)
        settings[index] = with_value(setting, half)
        return Candidate(tuple(settings), None)
    return None


def _places(verdict: Verdict, *tweaks: str) -> list[Place]:
    """Where these tweaks changed something."""
    applied = verdict.executions[-1].applied if verdict.executions else ()
    return [place for place in applied if place.tweak in tweaks]


def _edit(kept: _Kept) -> Edit:
    """The change by hand: as the finding says, else what the tweaks changed where."""
    candidate = kept.candidate
    places = _places(kept.verdict, *(setting.tweak for setting in candidate.settings))
    at = tuple(dict.fromkeys(place.at for place in places if place.at is not None))
    words = Variant(candidate.settings).words
    if candidate.finding is not None and candidate.finding.advice.code is not None:
        advice = candidate.finding.advice
        return Edit(words, advice.code or "", advice.at or at)
    return Edit(words, "\n".join(dict.fromkeys(_changed(place) for place in places)), at)


def _changed(place: Place) -> str:
    return f"{place.what}: {place.was} -> {place.now}" if place.now is not None else place.what
