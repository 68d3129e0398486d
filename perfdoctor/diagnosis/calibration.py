"""Corrects predicted gains by measured ones, and widens them so that four of five lie within their range.

A change brings more than the time that was measured of it: caches, allocators and other threads are better
off as well, most of all where loading or an exchange took cores from training. So measured gains are larger
by a share of their logarithm, and a predicted gain is raised to a power, for each class of time the median of
log(measured) / log(predicted). A number of workers, which the step model plays through, does what it says.

The range that the step model gives holds what it knows to be uncertain; what it does not know shows only
where a change was made and its gain measured. Of n such cases, take how far each measured gain lies below
its range, on a log scale, and lower each range by the ceil(0.9 (n + 1))-th smallest of these; likewise above.
Then a new case, if it is like those, lies below with a probability of at most 10 %, above with another 10 %,
and within with 80 % or more (conformalized quantile regression, its two ends apart: Romano, Patterson and
Candes, 2019). The cases are in bench/measured_gains.csv; `python bench/ranges.py` fits them, and shows how
well each cause is held by the others. Where a machine has enough trials of settings of a kind
(perfdoctor.diagnosis.history), these stand in their place for settings, and what the step model says stays.
"""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from statistics import median
from types import MappingProxyType

from perfdoctor.model.change import Effort
from perfdoctor.model.checked import Checked
from perfdoctor.model.concluded import Bottleneck, Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.widening import FEWEST, MachineRanges, Widening

ONE_SIDE = 0.9  # of the cases lie above the low end, and as many below the high end
UNKNOWN_KIND = 2.0  # times the widening of all cases, where too few are like this one
# The highest gain is this power of what a class of time allows: where cores and caches are short, what is
# cured leaves them to the rest. Of 29 twins beside other programs, ten gained more than their class allows,
# and two more than this.
BEYOND = 1.5
SMALL = 1.05  # predicted gains below this tell little of a power: their logarithm is close to nothing
UNRAISED = 1.0  # the power of what too few cases tell of


@dataclass(frozen=True)
class Case:
    """A change whose gain was predicted by the step model, and then measured."""

    kind: Bottleneck  # the class of time that the change acts on
    effort: Effort
    cause: str  # the tip
    predicted: Gain  # as the model gives it, neither raised nor widened
    measured: float  # speedup
    is_setting: bool = False  # no measured time goes: the step model plays the setting through
    bound: float = math.inf  # the gain if the class of time were free

    def raised(self, powers: Mapping[Bottleneck, float]) -> Case:
        """The same, with the predicted gain raised as gains of its class of time are."""
        power = UNRAISED if self.is_setting else powers.get(self.kind, UNRAISED)
        return replace(self, predicted=bounded(raised(self.predicted, power), self.bound))

    @property
    def below(self) -> float:
        """How far the measured gain lies below the range, as a log ratio; 0 if it does not."""
        return max(0.0, math.log(self.predicted.low / self.measured))

    @property
    def above(self) -> float:
        """How far it lies above the range, likewise."""
        return max(0.0, math.log(self.measured / self.predicted.high))


@dataclass(frozen=True)
class PartialGain:
    """One of the changes that are made together."""

    kind: Bottleneck
    gain: Gain  # of it alone
    is_setting: bool
    like: Bottleneck | None = None  # whose measured gains it is held against, if not those of its class

    @property
    def fitted(self) -> Bottleneck:
        """The class whose measured gains tell of it."""
        return self.like or self.kind


# Written by `python bench/ranges.py --write`; all cases are from CPUs.
# table: begin
POWERS: Mapping[Bottleneck, float] = {
    Bottleneck.DATA: 1.45,
    Bottleneck.COMPUTE: 1.06,
    Bottleneck.NETWORK: 1.59,
    Bottleneck.HOST: 1.26,
}
ALL_KINDS = Widening(cases=167, below=0.083, above=0.161)
BY_KIND: Mapping[Bottleneck, Widening] = {
    Bottleneck.DATA: Widening(cases=59, below=0.211, above=0.076),
    Bottleneck.COMPUTE: Widening(cases=49, below=0.080, above=0.130),
    Bottleneck.NETWORK: Widening(cases=27, below=0.208, above=0.161),
    Bottleneck.HOST: Widening(cases=32, below=0.000, above=0.414),
}
# table: end
UNMEASURED = Widening(cases=0, below=0.0, above=0.0)


def corrected(
    gain: Gain,
    parts: Sequence[PartialGain],
    here: Mapping[Bottleneck, Widening],
    checked: Checked,
    bound: float = math.inf,
) -> Gain:
    """A gain of the step model, raised and widened as gains of these classes of time ask for.

    `bound`: the gain if these classes were free. No more is likely, but the range reaches beyond it.
    `here`: what the run's machine knows by itself, of the step model as it is: then nothing is raised. Nor is
    what was not `checked` by measured gains, as nothing was on an accelerator; that is widened as what is not
    known.
    """
    kinds = {part.fitted for part in parts}
    by = widening(kinds, checked, here)
    as_it_is = not checked.is_measured or kinds <= here.keys()
    return widen(gain if as_it_is else raised(gain, power_of(parts)), by, bound)


def settings_on(device: str) -> Checked:
    """What changes were held against that no tip advises: settings were tried on CPUs."""
    return Checked.SCRIPTS if device == "cpu" else Checked.CPU_SCRIPTS


def least(checked: Iterable[Checked]) -> Checked:
    """What changes that are made together were held against: no more than each of them."""
    return max(checked, key=list(Checked).index, default=Checked.FACTS)


def fitted_here(efforts: Iterable[Effort], machine: MachineRanges) -> Mapping[Bottleneck, Widening]:
    """What the machine's own trials say of changes that take these efforts: they tell of settings only."""
    return machine.by_kind if set(efforts) == {Effort.FLAG} else {}


def power_of(parts: Sequence[PartialGain]) -> float:
    """The power for changes that are made together: that of each counts as the gain that it brings alone."""
    weights = [math.log(max(1.0, part.gain.likely)) for part in parts]
    if not sum(weights):
        return UNRAISED
    powers = [UNRAISED if part.is_setting else POWERS.get(part.fitted, UNRAISED) for part in parts]
    return math.fsum(map(operator.mul, weights, powers)) / math.fsum(weights)


def raised(gain: Gain, power: float) -> Gain:
    """The gain to a power; a slowdown stays as it is."""
    low, likely, high = (value**power if value > 1.0 else value for value in astuple(gain))
    return Gain(low, likely, high)


def bounded(gain: Gain, bound: float) -> Gain:
    """The gain, but no more than the bound."""
    likely = min(gain.likely, bound)
    return Gain(min(gain.low, likely), likely, min(max(gain.high, likely), bound))


def widening(
    kinds: Iterable[Bottleneck], checked: Checked, here: Mapping[Bottleneck, Widening] = MappingProxyType({})
) -> Widening:
    """The widening for a change that acts on these classes of time, by what its tips were held against.

    `here`: what the run's machine knows by itself, which comes first.
    """
    by_kind = {**(BY_KIND if checked.is_measured else {}), **here}
    known = [by_kind.get(kind, UNMEASURED) for kind in kinds]
    fewest = min((each.cases for each in known), default=0)
    if known and all(each.is_known for each in known):
        return Widening(fewest, max(each.below for each in known), max(each.above for each in known))
    return unknown(ALL_KINDS, BY_KIND.values(), fewest)


def unknown(every: Widening, known: Iterable[Widening], cases: int) -> Widening:
    """That of a kind of which too few cases are known: twice that of all, and no less than that of any."""
    widest = [each for each in known if each.is_known]
    return Widening(
        cases,
        max([UNKNOWN_KIND * every.below, *(each.below for each in widest)]),
        max([UNKNOWN_KIND * every.above, *(each.above for each in widest)]),
    )


def widen(gain: Gain, by: Widening, bound: float = math.inf) -> Gain:
    """The gain with a range that is wider by this much, within reach of the bound; the likely value stays."""
    _, likely, high = astuple(bounded(gain, bound))
    low = min(gain.low / math.exp(by.below), likely)
    return Gain(low, likely, min(high * math.exp(by.above), bound**BEYOND))


def fit_powers(cases: Sequence[Case]) -> Mapping[Bottleneck, float]:
    """The median power between predicted and measured gains of each kind of which enough cases tell."""
    told = defaultdict(list)
    for case in cases:
        if case.predicted.likely >= SMALL and not case.is_setting:
            told[case.kind].append(math.log(case.measured) / math.log(case.predicted.likely))
    return {kind: median(powers) for kind, powers in told.items() if len(powers) >= FEWEST}


def fit(cases: Sequence[Case]) -> tuple[Widening, Mapping[Bottleneck, Widening]]:
    """(The widening by all cases, that by the cases of each kind); of cases that are raised already."""
    by_kind = defaultdict(list)
    for case in cases:
        by_kind[case.kind].append(case)
    return _fitted(cases), {kind: _fitted(some) for kind, some in by_kind.items()}


def _fitted(cases: Sequence[Case]) -> Widening:
    below, above = [case.below for case in cases], [case.above for case in cases]
    return Widening(len(cases), _quantile(below), _quantile(above))


def _quantile(misses: Sequence[float]) -> float:
    place = math.ceil(ONE_SIDE * (len(misses) + 1))
    return sorted(misses)[min(place, len(misses)) - 1] if misses else 0.0
