"""What changes of precision, memory format and compilation brought to whole models, by published benchmarks.

The figures were measured by others on real devices, on models that keep the device busy: of huggingface's
pytorch-image-models on one RTX 3090 (channels last, training with mixed precision, torch 1.12) and one RTX
4090 (torch.compile, inference in 16 bits, torch 2.9), of Lambda's deeplearning-benchmark on V100 to H100
(training in 32 and in 16 bits; the latter with larger batches). What stands here was fitted on half of the
families of models: at most one in ten gains of a kind lies below its range and one above, and it is wider
where few families were measured. `python bench/published.py FOLDER` fits these ranges, and judges them by the
other half.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple
from enum import Enum

from perfdoctor.model.change import Change, Estimate
from perfdoctor.model.concluded import Gain
from perfdoctor.model.dataclass import dataclass

USUAL = 0.5  # of the computing is products in models like the measured ones; with less, less is gained
NARROW, WIDE = 8.0, 64.0  # channels of a group between which gains were seen to fall
MOST_REMOVED = 0.95  # of the time in kernels that can be fused: a bound, not a forecast


class MainWork(str, Enum):
    """What a model's products are, as far as these changes tell models apart."""

    MATRICES = "matrix products and attention"
    CONVOLUTIONS = "convolutions"
    DEPTHWISE = "convolutions, some of them depth-wise"
    GROUPED = "convolutions, some of them grouped"
    UNSHAPED = "convolutions, grouped or not"
    SMALL = "one-dimensional convolutions or very small products"


@dataclass(frozen=True)
class ModelKind:
    """What a run knows of its model: `work` is None where it does not know.

    `group_width`: channels of a group in grouped convolutions, in the mean.
    """

    work: MainWork | None
    group_width: float | None = None


@dataclass(frozen=True)
class Figures:
    """The range of published gains of one kind, and how many models of how many families it rests on."""

    rows: int
    families: int
    gain: Gain


# Written by `python bench/published.py FOLDER --write`.
# table: begin
CHANNELS_LAST: Mapping[MainWork, Figures] = {
    MainWork.MATRICES: Figures(33, 3, Gain(0.87, 1.01, 1.23)),
    MainWork.CONVOLUTIONS: Figures(39, 9, Gain(0.92, 1.20, 1.39)),
    MainWork.DEPTHWISE: Figures(40, 4, Gain(0.99, 1.38, 1.85)),
}
CHANNELS_LAST_NARROW = Figures(41, 9, Gain(0.82, 1.24, 1.67))
CHANNELS_LAST_WIDE = Figures(41, 9, Gain(0.28, 0.42, 0.56))
COMPILED: Mapping[MainWork, Figures] = {
    MainWork.MATRICES: Figures(106, 4, Gain(1.16, 1.59, 6.42)),
    MainWork.CONVOLUTIONS: Figures(46, 9, Gain(1.43, 1.66, 4.44)),
    MainWork.DEPTHWISE: Figures(90, 6, Gain(1.17, 1.52, 1.97)),
    MainWork.GROUPED: Figures(45, 9, Gain(1.20, 1.75, 2.31)),
}
FUSED = (0.229, 0.712, 1.766)  # of the time in kernels that can be fused: low, likely, high
MIXED_PRECISION: Mapping[tuple[MainWork, bool], Figures] = {  # in True, float32 ran as TF32
    (MainWork.MATRICES, False): Figures(6, 1, Gain(2.75, 4.46, 7.13)),
    (MainWork.MATRICES, True): Figures(68, 1, Gain(1.29, 2.08, 4.26)),
    (MainWork.CONVOLUTIONS, False): Figures(3, 1, Gain(1.44, 2.18, 3.30)),
    (MainWork.CONVOLUTIONS, True): Figures(34, 1, Gain(0.96, 1.48, 2.45)),
    (MainWork.SMALL, False): Figures(3, 1, Gain(0.67, 1.02, 1.65)),
    (MainWork.SMALL, True): Figures(34, 1, Gain(0.58, 1.01, 1.98)),
}
# table: end


def channels_last(kind: ModelKind) -> Gain:
    """The speedup of computing by channels last in mixed precision; below 1 for wide groups."""
    if kind.work is MainWork.GROUPED and kind.group_width is not None:
        return _between(CHANNELS_LAST_NARROW.gain, CHANNELS_LAST_WIDE.gain, kind.group_width)
    known = kind.work and CHANNELS_LAST.get(kind.work)
    if known:
        return known.gain
    return _any(_alike(CHANNELS_LAST, kind), (CHANNELS_LAST_NARROW, CHANNELS_LAST_WIDE))


def compiled(kind: ModelKind, fusible: float | None, chain: float = 1.0) -> Gain:
    """The speedup of computing by torch.compile. `fusible`: share of it in kernels that can be fused.

    It tells of matrix products only: convolutions are laid out anew as well, and gain from that. No published
    model is without products: of such a one, all that can be fused may go, and likely one kernel stays of
    each `chain` of so many, which reads and writes as much as each of them does (chains of eleven became 8.8
    times as fast on an H200).
    """
    known = kind.work and COMPILED.get(kind.work)
    gain = known.gain if known else _any(_alike(COMPILED, kind))
    if kind.work not in (None, MainWork.MATRICES) or fusible is None:
        return gain
    most = gain.high if kind.work else math.inf
    low, fused, high = FUSED
    fused = fused if kind.work else max(low, 1.0 - 1.0 / max(1.0, chain))
    gone = (min(MOST_REMOVED, fusible * part) for part in (low, fused, high))
    return Gain(*(min(most, 1.0 / (1.0 - share)) for share in gone))


def mixed_precision(kind: ModelKind, tf32: bool) -> Gain:
    """The speedup of computing in 16 bits instead of float32, or of TF32, on a device with tensor cores."""
    work = kind.work if kind.work in (MainWork.MATRICES, MainWork.SMALL) else MainWork.CONVOLUTIONS
    known = None if kind.work is None else MIXED_PRECISION.get((work, tf32))
    alike = {work: figures for (work, fast), figures in MIXED_PRECISION.items() if fast is tf32}
    return known.gain if known else _any(alike)


def change(gain: Gain, computing: float, products: float) -> Change:
    """What goes from the step: its share `computing` gains as published where `products` are half of that."""
    share = min(computing, products / USUAL)
    gone = Estimate(*(share * (1.0 - 1.0 / speedup) for speedup in astuple(gain)))
    return Change(step=gone, is_published=True)


def _alike(kinds: Mapping[MainWork, Figures], kind: ModelKind) -> Mapping[MainWork, Figures]:
    """Those that a model may be of: convolutions, where it is known to consist of them."""
    if kind.work not in (MainWork.UNSHAPED, MainWork.GROUPED):
        return kinds
    return {work: kinds[work] for work in kinds if work not in (MainWork.MATRICES, MainWork.SMALL)}


def _between(narrow: Gain, wide: Gain, width: float) -> Gain:
    """On the line between both, on scales of logarithms."""
    place = math.log(min(max(width, NARROW), WIDE) / NARROW) / math.log(WIDE / NARROW)
    return Gain(*(a ** (1 - place) * b**place for a, b in zip(astuple(narrow), astuple(wide), strict=True)))


def _any(kinds: Mapping[MainWork, Figures], others: tuple[Figures, ...] = ()) -> Gain:
    """The range for a model that may be of any of these kinds; likely what plain convolutions gain."""
    gains = [figures.gain for figures in (*kinds.values(), *others)]
    likely = kinds[MainWork.CONVOLUTIONS].gain.likely
    return Gain(min(gain.low for gain in gains), likely, max(gain.high for gain in gains))
