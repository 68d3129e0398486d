"""Events of work on whole matrices that hold nothing but a diagonal."""

from __future__ import annotations

from .seen_calls import CallsLineEvent, CallsLookEvent


class DiagonalMatricesLookEvent(CallsLookEvent, name="diagonal_matrices_look"):
    """The calls of a step that made, handled or used diagonal matrices."""


class DiagonalMatricesLineEvent(CallsLineEvent, name="diagonal_matrices_line"):
    """Those of one line."""

    matrices: int  # in the stack that the longest call had
    width: int  # of each
    distribution: bool  # most of it was called by torch.distributions
