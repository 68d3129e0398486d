"""Whether a variant learns what the original learns: their losses, under one seed, step by step.

A tweak that keeps every bit is held to that, wherever the script repeats itself bit for bit. Where it
does not, what can be compared is the loss in blocks of steps, against how far the originals' blocks lie
apart. Rounding is another matter: its differences are amplified from step to step until two runs differ
as if they had seen their batches in another order, and neither is wrong. So a variant that rounds
otherwise may differ in its blocks by what the loss itself fluctuates from step to step, however little
the originals do.

A library that adds in another order where memory is aligned otherwise makes two processes round
differently that do the same, once in a few executions. Some originals that agree to the last bit do not
rule that out, so a difference that begins in the last digits is rounding, whatever the tweak promised.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import combinations, product

import numpy as np

from perfdoctor.facts.steps.boundaries import Floats, Ints
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.trial import Execution, LossEquivalence
from perfdoctor.trials.statistics.speedup import quantile
from perfdoctor.tweaks import BITWISE, PATH

BLOCKS = 5  # long enough to even out steps, and enough of them to see a loss that turns away late
LEAST_STEPS = 10  # two in a block
LEAST_ORIGINALS = 3  # a spread from two has one degree of freedom: it would allow anything
ALIKE = 0.9  # of the longest curve's steps: curves of executions that were cut short are left out
WRONG = 0.01  # how often the spread of originals may call one more original another result
# Four roundoffs of bfloat16 (8 bits of significand), the coarsest format that a tweak computes in: an
# operation rounds its inputs, its weights and its result, and the loss is such a result again.
ROUNDOFF = 4 * 2.0**-8
LAST_DIGITS = 2.0**-14  # of the loss: a thousand roundoffs of float32, as long sums in two orders lie apart
LAG = 3  # updates that a gradient scaler skips while it looks for its scale
# Means of two runs in another order of batches lie 0.8 standard errors apart on average if their steps are
# independent; they are not quite, for a run that got ahead stays ahead.
APART = 2.0
LOST = 10  # steps without a known loss, to the end, that are no accident of reading a device late

Curves = Sequence[Floats]


@dataclass(frozen=True)
class _LossPair:
    """Losses of the steps that all have: a row for each execution."""

    originals: Floats
    variants: Floats
    numbers: Ints  # of the steps, from 1

    @property
    def steps(self) -> int:
        return int(self.originals.shape[1])

    @property
    def scale(self) -> float:
        """The original's mean absolute loss."""
        return float(np.mean(np.abs(self.originals))) or 1.0

    @property
    def noise(self) -> float | None:
        """Of the originals from each other, on average."""
        if len(self.originals) < 2:
            return None
        return self._apart(combinations(self.originals, 2))

    @property
    def difference(self) -> float:
        """Of the variant from the original, on average."""
        return self._apart(product(self.originals, self.variants))

    @cached_property
    def onset(self) -> tuple[int, float]:
        """The first step with a loss that no original has, and how far it is from the nearest one."""
        apart = np.abs(self.variants[:, None] - self.originals[None]).min(axis=1).max(axis=0)
        first = int(np.argmax(apart > 0.0))
        return int(self.numbers[first]), float(apart[first]) / self.scale

    @property
    def gap(self) -> float:
        """The same of the means of blocks."""
        return self._gap(self.originals, self.variants)

    @property
    def nearest(self) -> float:
        """The smallest such gap with the variant a few steps late, or early.

        A gradient scaler skips its first updates while it looks for its scale, and rounding lets a run get
        ahead: where the loss falls steeply, that is a large gap and no other result.
        """
        late = ((self.originals[:, :-by], self.variants[:, by:]) for by in range(1, LAG + 1))
        early = ((self.originals[:, by:], self.variants[:, :-by]) for by in range(1, LAG + 1))
        return min(self.gap, *(self._gap(*curves) for curves in (*late, *early)))

    @property
    def stays_behind(self) -> bool:
        """Whether the originals' loss falls by more than chance, and the variant's by less than half."""
        before, after = _blocks(self.originals).mean(axis=0), _blocks(self.variants).mean(axis=0)
        fall = float(before[0] - before[-1])
        return fall > self.rounding * self.scale and float(after[-1]) > before[-1] + fall / 2.0

    @property
    def spread(self) -> float:
        """How large the gap may be if the variant were one more original: a t-interval in each block."""
        count = len(self.originals)
        apart = np.std(_blocks(self.originals), axis=0, ddof=1).mean() / self.scale
        error = float(apart) * math.sqrt(1.0 / count + 1.0 / len(self.variants))
        return quantile(1.0 - WRONG / 2.0, count - 1) * error

    @property
    def rounding(self) -> float:
        """How large the gap may be through rounding alone."""
        # Of a step around its trend: second differences, in which a steady fall leaves nothing (Gasser, Sroka
        # and Jennen-Steinmetz, Biometrika 73, 1986). In each block by itself: a loss that begins high
        # fluctuates there, and says nothing of its end.
        squares = (np.diff(self.originals, 2) ** 2).mean(axis=0) / 6.0
        blocks = [math.sqrt(float(block.mean())) for block in np.array_split(squares, BLOCKS)]
        error = float(np.mean(blocks)) * math.sqrt(2.0 / (self.steps // BLOCKS))
        return max(ROUNDOFF, APART * error / self.scale)

    def _gap(self, originals: Floats, variants: Floats) -> float:
        before, after = _blocks(originals).mean(axis=0), _blocks(variants).mean(axis=0)
        return float(np.mean(np.abs(after - before))) / self.scale

    def _apart(self, pairs: Iterable[tuple[Floats, Floats]]) -> float:
        return float(np.mean([np.mean(np.abs(one - other)) for one, other in pairs])) / self.scale


def compare(originals: Sequence[Execution], variants: Sequence[Execution], result: str) -> LossEquivalence:
    """Whether executions of a variant, whose tweaks together promise `result`, learn what the original does.

    `result` is a word of probe.tweak.RESULTS. What cannot be judged has `same` None, and says why.
    """
    before, after = _curves(originals), _curves(variants)
    if not before or not after:
        whose = "the original's" if not before else "the variant's"
        return LossEquivalence(None, because=f"none of {whose} losses are known")
    lost = _lost(before, after)
    if lost is not None:
        return LossEquivalence(
            False, because=f"its loss is NaN or infinite after step {lost}; the original's is not"
        )
    both = _common(before, after)
    if both is None:
        return LossEquivalence(None, because=f"fewer than {LEAST_STEPS} steps have a known loss in both")
    doubts = dict.fromkeys(doubt for execution in variants for doubt in execution.may_differ)
    same, because = _judge(both, result, "; ".join(doubts))
    return LossEquivalence(same, both.difference, both.noise, both.steps, because)


def _judge(both: _LossPair, result: str, doubts: str) -> tuple[bool | None, str]:
    """(same, a sentence that says what was compared). `doubts`: why tweaks cannot keep their promise here."""
    over = f"over {both.steps} steps"
    if result == PATH:
        return None, f"the losses {over} are shown but not judged: training takes another path"
    if both.difference == 0.0 and not both.noise:
        return True, f"the losses {over} are the same to the last bit"
    if both.noise is None and result == BITWISE:
        return None, f"the losses differ {over}; whether the original repeats its own is not known"
    if both.noise and len(both.originals) < LEAST_ORIGINALS:
        return (
            None,
            f"the original does not repeat its own losses {over}, and ran too few times to tell its spread",
        )
    if result == BITWISE:
        return _bitwise(both, over, doubts)
    allowed = max(both.rounding, both.spread if both.noise else 0.0)
    return (
        both.nearest <= allowed,
        f"mean losses differ by {_share(both.nearest)} {over}; {_share(allowed)} is allowed",
    )


def _bitwise(both: _LossPair, over: str, doubts: str) -> tuple[bool | None, str]:
    """What promises the same bits is held to them, up to rounding, or to the original's own spread.

    Where other random numbers must have been drawn, only a variant that hardly learns at all is another
    result: by how far two seeds lie apart, executions under one seed cannot tell.
    """
    first, by = both.onset
    if 0.0 < by <= LAST_DIGITS and both.gap <= both.rounding:
        sentence = f"the losses {over} are {_share(both.difference)} apart and first differ by {_share(by)}"
        return True, f"{sentence}, in step {first}: rounding, as from another memory layout"
    if both.noise:
        sentence = (
            f"the original's own losses differ by {_share(both.noise)}, so mean losses {over} are compared"
        )
        sentence += f": {_share(both.gap)} apart, {_share(both.spread)} is allowed"
        if both.gap > both.spread and doubts and not both.stays_behind:
            return None, f"{sentence}; but {doubts}"
        return both.gap <= both.spread, sentence
    sentence = f"the losses differ by {_share(both.difference)} {over}, from step {first} on"
    if doubts and not both.stays_behind:
        usual = ", no more than other random numbers would cause" if both.gap <= both.rounding else ""
        return None, f"{sentence}{usual}: {doubts}"
    if both.gap <= both.rounding:
        return (
            False,
            f"{sentence}: no more than other random numbers would cause, as from the script's own generator",
        )
    return False, f"{sentence}; the original repeats its own to the last bit"


# ---------------------------------------------------------------- curves


def _curves(executions: Sequence[Execution]) -> list[Floats]:
    """Losses of the executions that have any."""
    curves = [np.asarray(execution.losses, dtype=np.float64) for execution in executions]
    return [curve for curve in curves if np.any(np.isfinite(curve))]


def _lost(before: Curves, after: Curves) -> int | None:
    """The last step of a variant that has a loss, where the original goes on to have one."""
    steps = min(max(map(len, before)), max(map(len, after)))
    goes_on = min(_last_known(curve[:steps]) for curve in before if len(curve) >= steps)
    for curve in after:
        last = _last_known(curve)
        if len(curve) >= steps and last + LOST <= goes_on:
            return last
    return None


def _last_known(curve: Floats) -> int:
    """The number of the last step with a loss, from 1."""
    return int(np.flatnonzero(np.isfinite(curve))[-1]) + 1


def _common(before: Curves, after: Curves) -> _LossPair | None:
    """The steps in which all have a loss; curves that were cut short are left out."""
    longest = min(max(map(len, before)), max(map(len, after)))
    curves_of_both = [
        [curve for curve in curves if len(curve) >= ALIKE * longest] for curves in (before, after)
    ]
    steps = min(len(curve) for curves in curves_of_both for curve in curves)
    originals, variants = (np.stack([curve[:steps] for curve in curves]) for curves in curves_of_both)
    finite = np.all(np.isfinite(np.concatenate([originals, variants])), axis=0)
    if np.count_nonzero(finite) < LEAST_STEPS:
        return None
    return _LossPair(originals[:, finite], variants[:, finite], np.flatnonzero(finite) + 1)


def _blocks(losses: Floats) -> Floats:
    """Means of BLOCKS stretches of the last axis; what is left over at its end is left out."""
    length = losses.shape[-1] // BLOCKS
    return np.asarray(
        losses[..., : BLOCKS * length].reshape(*losses.shape[:-1], BLOCKS, length).mean(axis=-1)
    )


def _share(value: float) -> str:
    """A share in percent, with two digits that count."""
    return f"{100 * value:.2g}%" if value < 0.995 else f"{value:.0%}"
