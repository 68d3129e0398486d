"""The speedup from paired rounds: an interval that holds however early the rounds are ended.

A round is a pair of whole executions, one after the other, or a fresh start of both, which then take turns of
about a second. What slows the machine for minutes slows both of a pair; pairs are compared by the logarithm
of their ratio. Of turns, the mean of each round counts, without its odd turns (a trimmed mean, Yuen 1974):
where a process lies in memory, and what it met at its start, stays the same for all turns of a round, so
that many turns tell little of how far apart fresh starts are. The mean over rounds has a t-interval (Student
1908). A round counts by the inverse of what its turns and the starts leave open, so that one in a burst of
other work does not widen them all (the random-effects mean with a weighted variance: Hartung and Knapp,
Statistics in Medicine 20, 2001). A handful of turns tells its own scatter to a multiple only, and a round
whose turns agree by chance would carry the mean: rounds count as different only as far as they scatter by
more than chance lets them (variances drawn to each other: Smyth, Statistical Applications in Genetics and
Molecular Biology 3, 2004). Three starts may agree by chance, so what their turns and what is known of
fresh starts let expect counts as well, as PRIOR rounds would (the scaled inverse chi-squared prior of a
variance: Gelman et al., Bayesian Data Analysis, section 2.6). At the last look, which spends most of what may
be wrong, PRIOR adds no degrees of freedom: where starts scatter by more than is known of them, three rounds
would seem surer than they are.

A trial may end at any round from the least on, and looks each time whether it may. Each look spends a part
of the 5 % of false alarms, and the last one, when no time is left or no further round is wanted, whatever is
unspent; by Boole's inequality all looks together stay below the sum of their parts, whatever made the trial
stop. Such repeated confidence intervals are from Jennison and Turnbull (JRSS B 51, 1989).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from statistics import fmean, median, variance

from perfdoctor.model.concluded import Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.trial import LEAST_ROUNDS, Outcome, is_narrow

# Fresh starts of the same two trainings differ by so much more than their turns do, by the layout of memory
# and by what is cached, and by so large a share of what a change brings (docs/variability.md has the trials).
STARTS, STARTS_OF_GAIN = 0.02, 0.05
PRIOR = 1.0  # rounds that this knowledge counts for: more of them would call busy machines calm
MOST_KEPT = 0.6  # of what a turn is off, in the next: a handful of turns cannot tell more
LEAST_OFF = 0.01  # of a fresh start's variance, below which what turns leave open makes no difference
TRIMMED = 0.2  # of the turns of a round, at either end
WITHOUT_ODD = 1.14  # times the variance of a mean of 5 to 12, so trimmed, where noise is normal: at most
# Half width of an interval that decides, relative: how much faster is worth knowing, too.
NARROW_ENOUGH = 0.10
CONFIDENCE = 0.95  # that the interval holds the true ratio, at whichever look the trial ended
# All looks at whole executions before the last one spend this share of what may be wrong. A small one: an
# early look stops for large effects anyhow, and where all rounds were needed their interval is only a few per
# cent wider for the looks. Of turns it is not known how many rounds come: each look spends as much as others.
EARLY, EACH_OF_TURNS = 0.2, 0.05
# Executions of one program in other surroundings (size of the environment, link order) differ by as much:
# Mytkowicz et al., "Producing wrong data without doing anything obviously wrong", ASPLOS 2009.
NOTICEABLE = 0.01
PRECISE = 1e-12  # of an angle in radians: where the search for a quantile ends

Pair = tuple[float, float]  # seconds of the original and of the variant, one after the other
Round = Sequence[Pair]  # one pair of whole executions, or several of turns between two fresh starts


@dataclass(frozen=True)
class PairedSpeedup:
    """What rounds say of a variant. Without enough of them there is no speedup."""

    outcome: Outcome
    because: str  # one sentence
    speedup: Gain | None = None  # of the variant: 2.0 = half the time
    confidence: float | None = None  # that the true ratio lies between low and high


def compare(rounds: Sequence[Round], planned: int, is_last: bool = False) -> PairedSpeedup:
    """The outcome for a variant after these rounds of `planned` ones; times are above 0.

    `is_last`: no further round will come, though fewer have than were planned.
    """
    if len(rounds) < LEAST_ROUNDS:
        return PairedSpeedup(
            Outcome.NOT_MEASURED, f"only {len(rounds)} of at least {LEAST_ROUNDS} rounds were measured"
        )
    gain = speedup(rounds, planned, is_last)
    outcome = _outcome(gain)
    return PairedSpeedup(outcome, _because(gain, outcome, len(rounds)), gain, CONFIDENCE)


def enough(rounds: Sequence[Round], planned: int) -> bool:
    """Whether no further round is needed: none is left, the variant is decided, or the interval is narrow."""
    if len(rounds) >= planned:
        return True
    if len(rounds) < LEAST_ROUNDS:
        return False
    gain = speedup(rounds, planned)
    if _in_turns(rounds) and gain.high > gain.likely * (1.0 + NARROW_ENOUGH):
        return False  # another round takes less time than one of whole executions
    return _outcome(gain) is not Outcome.NO_DIFFERENCE or is_narrow(gain)


def speedup(rounds: Sequence[Round], planned: int, is_last: bool = False) -> Gain:
    """The geometric mean of the ratios and its interval, from LEAST_ROUNDS on; arguments of `compare`."""
    means = [_RoundMean.of(each) for each in rounds]
    weights, prior = ([1.0] * len(means), 0.0) if not _in_turns(rounds) else (_weights(means), PRIOR)
    mean, squares = _weighted(means, weights)
    scatter = (prior + squares) / (prior + len(means) - 1.0)
    # Where a few calm rounds carry the mean, the scatter is known from those few: Kish's effective number.
    carrying = sum(weights) ** 2 / sum(weight**2 for weight in weights)
    known = 0.0 if is_last or len(rounds) >= planned else prior
    degrees = max(1.0, carrying - 1.0 + known)
    wrong = wrong_at(len(rounds), planned, _in_turns(rounds), is_last)
    half = _between_degrees(1.0 - wrong / 2.0, degrees) * math.sqrt(scatter / sum(weights))
    return Gain(math.exp(mean - half), math.exp(mean), math.exp(mean + half))


@dataclass(frozen=True)
class _RoundMean:
    """The mean log ratio of a round, and how far off its turns leave it."""

    log: float
    variance: float
    degrees: int = 0  # of freedom, of the variance

    @classmethod
    def of(cls, pairs: Round) -> _RoundMean:
        """Of whole executions, their ratio; of turns, the trimmed mean with its winsorised variance."""
        logs = [math.log(original_s / variant_s) for original_s, variant_s in pairs]
        if len(logs) == 1:
            return cls(logs[0], 0.0)
        odd = int(TRIMMED * len(logs))
        ranked = sorted(logs)
        kept = ranked[odd : len(ranked) - odd]
        winsorised = [kept[0]] * odd + kept + [kept[-1]] * odd
        within = variance(winsorised) / ((1.0 - 2.0 * odd / len(logs)) ** 2 * len(logs))
        return cls(fmean(kept), within * _inflation(logs), len(kept) - 1)


def _weighted(means: Sequence[_RoundMean], weights: Sequence[float]) -> tuple[float, float]:
    """The weighted mean, and the weighted sum of squares around it."""
    mean = sum(weight * each.log for weight, each in zip(weights, means, strict=True)) / sum(weights)
    return mean, sum(weight * (each.log - mean) ** 2 for weight, each in zip(weights, means, strict=True))


def _weights(means: Sequence[_RoundMean]) -> list[float]:
    """What each round of turns counts: the inverse of what its turns and the starts leave open.

    Starts differ by what is known of them, or by more where rounds do (DerSimonian and Laird, Controlled
    Clinical Trials 7, 1986).
    """
    between = STARTS**2 + (STARTS_OF_GAIN * median(each.log for each in means)) ** 2
    left_open = [each + between for each in _left_open(means)]
    weights = [1.0 / each for each in left_open]
    total = sum(weights)
    excess = _weighted(means, weights)[1] - (len(means) - 1.0)
    more = max(0.0, excess) / (total - sum(weight**2 for weight in weights) / total)
    return [1.0 / (each + more) for each in left_open]


def _left_open(means: Sequence[_RoundMean]) -> list[float]:
    """The variance of each round of turns, drawn to that of all as far as chance alone makes them differ.

    The logarithm of a variance of d degrees of freedom lies log(d / 2) - digamma(d / 2) too low in the mean,
    and scatters by trigamma(d / 2), here by their series (Abramowitz and Stegun, 6.3.18 and 6.4.12).
    """
    least = LEAST_OFF * STARTS**2
    logs = [math.log(max(each.variance, least)) for each in means]
    middle = fmean(logs)
    scatter = variance(logs, middle)
    by_chance = fmean(
        2.0 / each.degrees + 2.0 / each.degrees**2 + 4.0 / (3.0 * each.degrees**3) for each in means
    )
    below = fmean(1.0 / each.degrees + 1.0 / (3.0 * each.degrees**2) for each in means)
    own = max(0.0, 1.0 - by_chance / scatter) if scatter > 0 else 0.0
    return [math.exp(middle + own * (log - middle) + (1.0 - own) * below) for log in logs]


def _inflation(logs: Sequence[float]) -> float:
    """How many times more a mean scatters where a slow turn is followed by slow ones: that of AR(1)."""
    mean = fmean(logs)
    squares = sum((log - mean) ** 2 for log in logs)
    products = sum((one - mean) * (next_one - mean) for one, next_one in pairwise(logs))
    kept = min(MOST_KEPT, max(0.0, products / squares)) if squares > 0 else 0.0
    return (1.0 + kept) / (1.0 - kept)


def _in_turns(rounds: Sequence[Round]) -> bool:
    return bool(rounds) and all(len(pairs) > 1 for pairs in rounds)


def wrong_at(rounds: int, planned: int, in_turns: bool = False, is_last: bool = False) -> float:
    """How likely the interval after so many rounds may be wrong; over all looks these add up to 5 %.

    The last look, after all planned rounds or before (`is_last`), may be as wrong as those before it left.
    """
    wrong = 1.0 - CONFIDENCE
    looks = planned - LEAST_ROUNDS + 1
    if looks <= 1:
        return wrong
    each = wrong * (min(EACH_OF_TURNS, 1.0 / looks) if in_turns else EARLY / (looks - 1))
    taken = min(rounds, planned) - LEAST_ROUNDS
    return wrong - taken * each if is_last or rounds >= planned else each


def _between_degrees(probability: float, degrees: float) -> float:
    """The quantile for degrees of freedom that are no whole number, interpolated over their inverse."""
    fewer = int(degrees)
    upper = quantile(probability, fewer)
    share = (1.0 / fewer - 1.0 / degrees) * fewer * (fewer + 1)  # 0 at `fewer`, 1 at one more
    return upper + share * (quantile(probability, fewer + 1) - upper)


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


def foreseen(pair_variance: float, turns: int, rounds: int) -> float:
    """How far the interval of so many rounds is likely to reach to either side of the speedup, relative.

    `pair_variance` is that of the log ratio of two neighbouring turns. Rounds are taken to differ by what
    their turns leave and by what fresh starts usually do.
    """
    of_turns = (WITHOUT_ODD if int(TRIMMED * turns) else 1.0) * pair_variance / turns
    scatter = of_turns + STARTS**2
    wrong = wrong_at(rounds, rounds, in_turns=True)
    return math.expm1(quantile(1.0 - wrong / 2.0, rounds - 1) * math.sqrt(scatter / rounds))


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
    most = math.ceil(100.0 * (max(gain.high, 1.0 / gain.low) - 1.0))
    if most <= 100.0 * NARROW_ENOUGH:
        return f"{between}: a difference, if any, of less than {most}%"
    return f"{between}: rounds differ too much to decide; more time (--seconds) or a quieter machine may help"
