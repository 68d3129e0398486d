"""Events of products with matrices that are mostly zero: one-hot rows, sparse graphs kept dense."""

from __future__ import annotations

from . import Event, Line


class ZeroProductsLookEvent(Event, name="zero_products_look"):
    """Two steps in a row were looked at call by call."""

    look: int | None  # counted from 1
    step_s: float  # of the second step, without what looking took
    calls: int  # of the second step, products with a matrix that is mostly zero
    seconds: float  # that they took, and making one-hot matrices for them
    backward_s: float  # about as much as their counterparts in backward take
    lines: int  # they come from


class ZeroProductsLineEvent(Event, name="zero_products_line"):
    """The products of one line in such a step."""

    look: int | None
    calls: int
    seconds: float
    backward_s: float
    names: list[str]  # of the functions, costliest first
    rows: int  # of the matrix of the longest product, with those of a whole stack of matrices
    columns: int
    nonzero_share: float  # of its elements
    one_hot: bool  # each row, or each column, holds a single one, and nothing else
    at: Line | None
