"""Matrix sizes that are not multiples of 8 keep 16-bit matrix products off the fast path.

## What it sees
16-bit matrix products whose sizes are not multiples of 8, or TF32 ones whose sizes are not multiples of 4,
take a noticeable share of the time.

## By hand
    vocabulary = math.ceil(vocabulary / 8) * 8      # pad the output layer, the classes, the batch

## When not
A small product is limited by its launch, whatever its sizes. Padding that adds more work than it saves does
not help.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfdoctor.facts.device.device import MatrixFacts
from perfdoctor.facts.device.rooflines import LAUNCH_US, REACHED
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import Checked, tip
from perfdoctor.trace.measure.dtypes import BYTES
from perfdoctor.trace.results import DevicePeak, MatrixUse

NOTICEABLE = 0.05  # share of the time
# Elements in 16 bytes, which tensor cores load at once (NVIDIA's matrix guide).
ALIGNED = {"float16": 8, "bfloat16": 8, "tf32": 4}
# Speedup of such a product when padded. Since cuBLAS 11 tensor cores work on any size and lose less (NVIDIA's
# matrix guide holds 10.1 against 11.0); the highest is for libraries before it. What the device's rates allow
# may be more: on an H200, products with an odd number of classes took seven to eleven times the minimum.
FASTER = (1.1, 1.3, 4.0)
# Fast kernels compute a tile of so many rows and columns at once, each of so many sums: less fills none.
TILE, DEPTH = 64, 32
SHOWN = 3  # shapes named


@tip(
    title="Pad matrix sizes to multiples of 8",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    applies=("gpu",),
    checked=Checked.TRACES,
    kernels_only=True,
)
def misaligned_shapes(matrices: MatrixFacts) -> Advice | None:
    """Advises padding where misaligned products take a noticeable share."""
    misaligned = [use for use in matrices.matrices if use.multiple < ALIGNED.get(use.dtype, 1)]
    share = min(1.0, matrices.scale * sum(use.us for use in misaligned))
    if share < NOTICEABLE:
        return None
    low, likely, high = (
        sum(matrices.scale * use.us * _gone(use, matrices.peak, case) for use in misaligned)
        for case in range(3)
    )
    return Advice(
        because=(
            f"{share:.1%} of the time goes into {_kinds(misaligned)}",
            *(_shape(use, matrices.scale) for use in misaligned[:SHOWN]),
        ),
        change=removes(low, likely, high),
        code="padded = (size + 7) // 8 * 8  # vocabulary, classes, features, batch",
    )


def _gone(use: MatrixUse, peak: DevicePeak | None, case: int) -> float:
    """The share of a product's time that padding takes away: at worst, likely, at best."""
    least = 1 - 1 / FASTER[case]
    rate = peak.flops_per_s.get(use.dtype) if peak is not None else None
    if peak is None or not rate or use.us <= 0:
        return least
    width = ALIGNED[use.dtype]
    m, n, k = (math.ceil(size / width) * width for size in (use.m, use.n, use.k))
    moving_s = use.batch * BYTES[use.dtype] * (m * k + k * n + m * n) / peak.bytes_per_s
    m, n, k = (math.ceil(size / tile) * tile for size, tile in ((m, TILE), (n, TILE), (k, DEPTH)))
    padded_us = 1e6 * max(2.0 * use.batch * m * n * k / rate, moving_s) / REACHED[case]
    by_rates = 1 - use.count * max(LAUNCH_US, padded_us) / use.us
    # nothing becomes faster than the device allows, however fast an aligned product may be
    return max(by_rates, least if case < 2 else 1 - 1 / FASTER[1])


def _kinds(uses: Sequence[MatrixUse]) -> str:
    """The products by what their sizes should be multiples of."""
    narrow, wide = (any(ALIGNED[use.dtype] == size for use in uses) for size in (8, 4))
    kinds = ["16-bit products of sizes that are not multiples of 8"] * narrow
    return " and ".join([*kinds, *["TF32 products of sizes that are not multiples of 4"] * wide])


def _shape(use: MatrixUse, scale: float) -> str:
    odd = [name for name in ("m", "n", "k") if getattr(use, name) % ALIGNED[use.dtype]]
    return (
        f"{use.op}, m={use.m} n={use.n} k={use.k} in {use.dtype}: {min(1.0, scale * use.us):.1%} of the time"
        f" ({', '.join(odd)} misaligned)"
    )
