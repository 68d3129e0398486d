"""Events of tensors of the host that each step copies to a device, although they never change."""

from __future__ import annotations

from . import Event, Line


class ConstantCopiesLookEvent(Event, name="constant_copies_look"):
    """The copies to a device were looked at in two steps in a row."""

    look: int | None  # counted from 1
    step_s: float  # of the second step
    copies: int  # of tensors that are not small, in the second step
    constants: int  # of them, those of what the first one copied too, and nobody has changed since


class ConstantCopiesLineEvent(Event, name="constant_copies_line"):
    """What one line copied in both steps of such a pair, unchanged: the second step's copies."""

    look: int | None
    copies: int
    bytes: int  # that arrive
    seconds: float  # that the host took, with what it waited for
    pinned: bool  # all of it lies in pinned memory
    at: Line | None
