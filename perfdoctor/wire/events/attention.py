"""Events of attention that a script writes out."""

from __future__ import annotations

from . import Event


class WrittenAttentionEvent(Event, name="written_attention"):
    """Running totals of the backwards that were looked at, on a CPU."""

    written: int  # softmaxes between two batched products
    unfused: int  # of these, such that no fused kernel computes with their gradients
