"""Events of products with matrices that are mostly zero: one-hot rows, sparse graphs kept dense."""

from __future__ import annotations

from .seen_calls import CallsLineEvent, CallsLookEvent


class ZeroProductsLookEvent(CallsLookEvent, name="zero_products_look"):
    """Those of a step, and making one-hot matrices for them."""


class ZeroProductsLineEvent(CallsLineEvent, name="zero_products_line"):
    """Those of one line."""

    rows: int  # of the matrix of the longest product, with those of a whole stack of matrices
    columns: int
    nonzero_share: float  # of its elements
    one_hot: bool  # each row, or each column, holds a single one, and nothing else
