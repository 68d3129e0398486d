"""Events of Fourier transforms that are done by products with dense kernels."""

from __future__ import annotations

from . import Event, Line


class FourierProductsLookEvent(Event, name="fourier_products_look"):
    """Two steps in a row were looked at call by call."""

    look: int | None  # counted from 1
    step_s: float  # of the second step, without what looking took
    calls: int  # of the second step, that multiplied by Fourier rows
    seconds: float  # that they took
    backward_s: float  # that their parts of backward took
    operations_left: float  # share of these calls' operations that a fast transform has; by time
    lines: int  # they come from


class FourierProductsLineEvent(Event, name="fourier_products_line"):
    """The calls of one line in such a step."""

    look: int | None
    calls: int
    seconds: float
    backward_s: float
    names: list[str]  # of the functions, costliest first
    taps: int  # samples that each row of the longest call's kernel takes
    rows: int  # of it
    hop: int  # samples from one frame to the next; 0: a product of matrices
    at: Line | None
