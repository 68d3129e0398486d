"""How much of the attention that a script writes out a fused kernel could take over: FusableAttention."""

from __future__ import annotations

from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.attention import WrittenAttentionEvent


@dataclass(frozen=True)
class FusableAttention:
    """Of the attention that is written out, by the graphs of losses on a CPU."""

    share: float  # that a fused kernel can compute, gradients included


@fact
def fusable_attention(rank: RankRecords) -> FusableAttention | None:
    """By the last of the running totals, or None where no graph holds any."""
    totals = rank.of(WrittenAttentionEvent)
    if not totals or not totals[-1].written:
        return None
    return FusableAttention(1.0 - min(1.0, totals[-1].unfused / totals[-1].written))
