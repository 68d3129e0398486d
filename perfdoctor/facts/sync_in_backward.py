"""Tells how many stack samples of backward were taken while gradients were exchanged inside it.

DistributedDataParallel exchanges them from C++, without a frame of its own; only the timers tell it apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from perfdoctor.model.measured import Phase


def exchanging(
    backward: Sequence[int], seconds: Mapping[Phase, float], samples: Mapping[Phase, int]
) -> list[int]:
    """Of the samples of each stack of backward, those that the exchange of gradients gets.

    `seconds` by the timers and `samples` by the frames are of the same phases. What the samples in
    collectives of the script's own do not account for was exchanged inside backward. Rounded so that the
    share is right of all stacks together, however few samples each of them has.
    """
    own_s = sum(seconds.values()) * samples.get(Phase.GRAD_SYNC, 0) / max(1, sum(samples.values()))
    inside_s = max(0.0, seconds.get(Phase.GRAD_SYNC, 0.0) - own_s)
    share = inside_s / (inside_s + seconds.get(Phase.BACKWARD, 0.0)) if inside_s else 0.0
    return [
        after - before
        for before, after in pairwise(round(share * seen) for seen in accumulate(backward, initial=0))
    ]
