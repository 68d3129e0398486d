"""Events of work on whole matrices that hold nothing but a diagonal."""

from __future__ import annotations

from . import Event, Line


class DiagonalMatricesLookEvent(Event, name="diagonal_matrices_look"):
    """Two steps in a row were looked at call by call."""

    look: int | None  # counted from 1
    step_s: float  # of the second step, without what looking took
    calls: int  # of the second step, that made, handled or used diagonal matrices
    seconds: float  # that they took
    backward_s: float  # that their parts of backward took
    lines: int  # they come from


class DiagonalMatricesLineEvent(Event, name="diagonal_matrices_line"):
    """The calls of one line in such a step."""

    look: int | None
    calls: int
    seconds: float
    backward_s: float
    names: list[str]  # of the functions, costliest first
    matrices: int  # in the stack that the longest call had
    width: int  # of each
    distribution: bool  # most of it was called by torch.distributions
    at: Line | None
