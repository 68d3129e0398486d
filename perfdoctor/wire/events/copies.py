"""Events of copying the same again: tensors and arrays that a step copies, as the step before did."""

from __future__ import annotations

from .seen_calls import CallsLineEvent, CallsLookEvent


class CopiesLookEvent(CallsLookEvent, name="copies_look"):
    """The calls of a step that copied what the step before copied."""

    bytes: int  # that they wrote


class CopiesLineEvent(CallsLineEvent, name="copies_line"):
    """Those of one line."""

    bytes: int
    weights: bool  # most of these bytes are parameters that optimizers train, or copies of them
    gradients: bool = False  # or their gradients, which are set to zero and not dropped
