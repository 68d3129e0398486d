"""The speedup from paired rounds: an interval that holds however early the rounds are ended.

Within a round both were executed one after the other, so what slows the machine for minutes slows both;
rounds are compared by the logarithm of their ratio, whose mean has a t-interval (Student 1908). A trial may
end at any round from the third on, and looks each time whether it may. Each look spends a part of the 5 %
of false alarms; by Boole's inequality all looks together stay below the sum of their parts, whatever made
the trial stop. Such repeated confidence intervals are from Jennison and Turnbull (JRSS B 51, 1989).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev

from perfdoctor.model.concluded import Gain
from perfdoctor.model.trial import Outcome, is_narrow

# Two have one degree of freedom: their 95 % interval is 13 standard errors wide to each side.
LEAST_ROUNDS = 3
CONFIDENCE = 0.95  # that the interval holds the true ratio, at whichever look the trial ended
# All looks before the last one spend this share of what may be wrong. A small one: an early look stops for
# large effects anyhow, and where all five rounds were needed their interval is only 8 % wider for the looks.
EARLY = 0.2
# Executions of one program in other surroundings (size of the environment, link order) differ by as much:
# Mytkowicz et al., "Producing wrong data without doing anything obviously wrong", ASPLOS 2009.
NOTICEABLE = 0.01
PRECISE = 1e-12  # of an angle in radians: where the search for a quantile ends

Pair = tuple[float, float]  # seconds of the original and of the variant in one round


@dataclass(frozen=True)
class PairedSpeedup:
    """What rounds say of a variant. Without enough of them there is no speedup."""

    outcome: Outcome
    because: str  # one sentence
    speedup: Gain | None = None  # of the variant: 2.0 = half the time
    confidence: float | None = None  # that the true ratio lies between low and high


def compare(pairs: Sequence[Pair], planned: int) -> PairedSpeedup:
    """The outcome for a variant after these rounds of `planned` ones; times are above 0."""
    if len(pairs) < LEAST_ROUNDS:
        return PairedSpeedup(
            Outcome.NOT_MEASURED, f"only {len(pairs)} of at least {LEAST_ROUNDS} rounds were measured"
        )
    gain = speedup(pairs, planned)
    outcome = _outcome(gain)
    return PairedSpeedup(outcome, _because(gain, outcome, len(pairs)), gain, CONFIDENCE)


def enough(pairs: Sequence[Pair], planned: int) -> bool:
    """Whether no further round is needed: none is left, the variant is decided, or the interval is narrow."""
    if len(pairs) >= planned:
        return True
    if len(pairs) < LEAST_ROUNDS:
        return False
    gain = speedup(pairs, planned)
    return _outcome(gain) is not Outcome.NO_DIFFERENCE or is_narrow(gain)


def speedup(pairs: Sequence[Pair], planned: int) -> Gain:
    """The geometric mean of the ratios and its interval, from at least LEAST_ROUNDS rounds."""
    logs = [math.log(original_s / variant_s) for original_s, variant_s in pairs]
    mean = fmean(logs)
    wrong = wrong_at(len(logs), planned)
    half = quantile(1.0 - wrong / 2.0, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return Gain(math.exp(mean - half), math.exp(mean), math.exp(mean + half))


def wrong_at(rounds: int, planned: int) -> float:
    """How likely the interval after so many rounds may be wrong; over all looks these add up to 5 %."""
    wrong = 1.0 - CONFIDENCE
    before_last = planned - LEAST_ROUNDS
    if before_last <= 0:
        return wrong
    return wrong * (1.0 - EARLY) if rounds >= planned else wrong * EARLY / before_last


@cache
def quantile(probability: float, degrees: int) -> float:
    """What Student's t with so many degrees of freedom stays below with `probability`, 0.5 to below 1."""
    low, high = 0.0, math.pi / 2.0
    while high - low > PRECISE * high:
        middle = (low + high) / 2.0
        if 0.5 + _within(middle, degrees) / 2.0 < probability:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan((low + high) / 2.0)


def _within(angle: float, degrees: int) -> float:
    """The probability of |t| < sqrt(degrees) tan(angle): Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = 0.0
    for power in range(odd, degrees - 1, 2):  # the power of the cosine
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    return 2.0 / math.pi * (angle + sine * total) if odd else sine * total


def _outcome(gain: Gain) -> Outcome:
    if gain.low > 1.0 and gain.likely > 1.0 + NOTICEABLE:
        return Outcome.FASTER
    if gain.high < 1.0 and gain.likely < 1.0 / (1.0 + NOTICEABLE):
        return Outcome.SLOWER
    return Outcome.NO_DIFFERENCE


def _because(gain: Gain, outcome: Outcome, rounds: int) -> str:
    between = f"between {gain.low:.3f} and {gain.high:.3f} times as fast, over {rounds} rounds"
    if outcome is not Outcome.NO_DIFFERENCE:
        return between
    if gain.low > 1.0 or gain.high < 1.0:
        return f"{between}: a difference, of at most {NOTICEABLE:.0%}"
    if is_narrow(gain):
        return f"{between}: no difference worth a change"
    return (
        f"{between}: rounds differ too much to decide; more rounds (--rounds) or a quieter machine may help"
    )
