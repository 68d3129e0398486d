"""Widens predicted gains so that four of five measured ones lie within their range.

The range that the step model gives holds what it knows to be uncertain; what it does not know shows only
where a change was made and its gain measured. Of n such cases, take how far each measured gain lies outside
its range, on a log scale, and widen each range by the ceil(0.8 (n + 1))-th smallest of these: then a new
case, if it is like those, lies within with a probability of 80 % or more (conformalized quantile
regression, Romano, Patterson and Candes, 2019). The cases are in bench/measured_gains.csv; `python
bench/ranges.py` fits them, and shows how well each cause is held by the others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfdoctor.model.concluded import Bottleneck, Gain

COVERAGE = 0.8
FEWEST = 4  # cases; of fewer, the ceil(0.8 (n + 1))-th smallest does not exist
UNKNOWN_KIND = 2.0  # times the widening of all cases, where too few are like this one


@dataclass(frozen=True)
class Widening:
    """By how much the ranges of a kind of change are widened: `log_ratio` at either end of log(speedup)."""

    cases: int  # measured ones that it rests on
    log_ratio: float

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
    def miss(self) -> float:
        """How far the measured gain lies outside the range, as a log ratio; 0 if within."""
        return max(
            0.0,
            math.log(self.predicted.low / self.measured),
            math.log(self.measured / self.predicted.high),
        )


# Written by `python bench/ranges.py --write`; all cases are from CPUs.
# table: begin
ALL_KINDS = Widening(cases=46, log_ratio=0.127)
BY_KIND: Mapping[Bottleneck, Widening] = {
    Bottleneck.DATA: Widening(cases=17, log_ratio=0.224),
    Bottleneck.COMPUTE: Widening(cases=16, log_ratio=0.006),
    Bottleneck.NETWORK: Widening(cases=6, log_ratio=0.358),
    Bottleneck.HOST: Widening(cases=7, log_ratio=0.187),
}
# table: end


def widening(kinds: Iterable[Bottleneck], device: str) -> Widening:
    """The widening for a change that acts on these classes of time, in a run on this type of device."""
    known = [BY_KIND.get(kind, Widening(0, 0.0)) for kind in kinds] if device == "cpu" else []
    if known and all(each.is_known for each in known):
        return max(known, key=lambda each: each.log_ratio)
    return Widening(min((each.cases for each in known), default=0), UNKNOWN_KIND * ALL_KINDS.log_ratio)


def widen(gain: Gain, by: Widening) -> Gain:
    """The gain with a range that is wider by this much; the likely value stays."""
    factor = math.exp(by.log_ratio)
    return Gain(gain.low / factor, gain.likely, gain.high * factor)


def fit(cases: Sequence[Case]) -> tuple[Widening, Mapping[Bottleneck, Widening]]:
    """(The widening by all cases, that by the cases of each kind)."""
    by_kind = defaultdict(list)
    for case in cases:
        by_kind[case.kind].append(case.miss)
    kinds = {kind: _quantile(misses) for kind, misses in by_kind.items()}
    return _quantile([case.miss for case in cases]), kinds


def _quantile(misses: Sequence[float]) -> Widening:
    place = math.ceil(COVERAGE * (len(misses) + 1))
    return Widening(len(misses), sorted(misses)[min(place, len(misses)) - 1] if misses else 0.0)
