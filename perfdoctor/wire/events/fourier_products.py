"""Events of Fourier transforms that are done by products with dense kernels."""

from __future__ import annotations

from .seen_calls import CallsLineEvent, CallsLookEvent


class FourierProductsLookEvent(CallsLookEvent, name="fourier_products_look"):
    """The calls of a step that multiplied by Fourier rows."""

    operations_left: float  # share of these calls' operations that a fast transform has; by time


class FourierProductsLineEvent(CallsLineEvent, name="fourier_products_line"):
    """Those of one line."""

    taps: int  # samples that each row of the longest call's kernel takes
    rows: int  # of it
    hop: int  # samples from one frame to the next; 0: a product of matrices
