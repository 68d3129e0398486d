"""Widens predicted gains so that four of five measured ones lie within their range.

The range that the step model gives holds what it knows to be uncertain; what it does not know shows only
where a change was made and its gain measured. Of n such cases, take how far each measured gain lies below
its range, on a log scale, and lower each range by the ceil(0.9 (n + 1))-th smallest of these; likewise above.
Then a new case, if it is like those, lies below with a probability of at most 10 %, above with another 10 %,
and within with 80 % or more (conformalized quantile regression, its two ends apart: Romano, Patterson and
Candes, 2019). The cases are in bench/measured_gains.csv; `python bench/ranges.py` fits them, and shows how
well each cause is held by the others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfdoctor.model.concluded import Bottleneck, Gain

ONE_SIDE = 0.9  # of the cases lie above the low end, and as many below the high end
FEWEST = 9  # cases; of fewer, the ceil(0.9 (n + 1))-th smallest does not exist
UNKNOWN_KIND = 2.0  # times the widening of all cases, where too few are like this one


@dataclass(frozen=True)
class Widening:
    """By how much the ranges of a kind of change are widened, on a scale of log(speedup)."""

    cases: int  # measured ones that it rests on
    below: float
    above: float

    @property
    def is_known(self) -> bool:
        """Whether enough changes of this kind were measured."""
        return self.cases >= FEWEST


@dataclass(frozen=True)
class Case:
    """A change whose gain was predicted by the step model, and then measured."""

    kind: Bottleneck  # the class of time that the change acts on
    cause: str  # the tip
    predicted: Gain  # as the model gives it, not widened
    measured: float  # speedup

    @property
    def below(self) -> float:
        """How far the measured gain lies below the range, as a log ratio; 0 if it does not."""
        return max(0.0, math.log(self.predicted.low / self.measured))

    @property
    def above(self) -> float:
        """How far it lies above the range, likewise."""
        return max(0.0, math.log(self.measured / self.predicted.high))


# Written by `python bench/ranges.py --write`; all cases are from CPUs.
# table: begin
ALL_KINDS = Widening(cases=66, below=0.049, above=0.278)
BY_KIND: Mapping[Bottleneck, Widening] = {
    Bottleneck.DATA: Widening(cases=25, below=0.075, above=0.411),
    Bottleneck.COMPUTE: Widening(cases=20, below=0.045, above=0.006),
    Bottleneck.NETWORK: Widening(cases=8, below=0.113, above=0.541),
    Bottleneck.HOST: Widening(cases=13, below=0.000, above=0.187),
}
# table: end
UNMEASURED = Widening(cases=0, below=0.0, above=0.0)


def widening(kinds: Iterable[Bottleneck], device: str) -> Widening:
    """The widening for a change that acts on these classes of time, in a run on this type of device."""
    known = [BY_KIND.get(kind, UNMEASURED) for kind in kinds] if device == "cpu" else []
    fewest = min((each.cases for each in known), default=0)
    if known and all(each.is_known for each in known):
        return Widening(fewest, max(each.below for each in known), max(each.above for each in known))
    return doubled(ALL_KINDS, fewest)


def doubled(every: Widening, cases: int) -> Widening:
    """The widening for a kind of which too few cases are known, by that of all kinds."""
    return Widening(cases, UNKNOWN_KIND * every.below, UNKNOWN_KIND * every.above)


def widen(gain: Gain, by: Widening) -> Gain:
    """The gain with a range that is wider by this much; the likely value stays."""
    return Gain(gain.low / math.exp(by.below), gain.likely, gain.high * math.exp(by.above))


def fit(cases: Sequence[Case]) -> tuple[Widening, Mapping[Bottleneck, Widening]]:
    """(The widening by all cases, that by the cases of each kind)."""
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
