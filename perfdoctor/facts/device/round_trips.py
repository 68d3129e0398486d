"""Tells for what tensors leave the device in every step and come back: for operators, or for other things."""

from __future__ import annotations

from collections.abc import Iterable

from perfdoctor.trace.results import RoundTrip

REPEATED = 5  # trips, where no step is marked: fewer are set-up
ON_HOST = 0.5  # of the idle time inside operators of the host: that is what they went for


def for_operators(trips: Iterable[RoundTrip], steps: int | None) -> list[RoundTrip]:
    """Those that went for operators, which run on the host meanwhile."""
    return [trip for trip in _repeated(trips, steps) if _computes(trip)]


def for_anything_else(trips: Iterable[RoundTrip], steps: int | None) -> list[RoundTrip]:
    """Those that went for something else, such as NumPy, and bring as many bytes back."""
    return [trip for trip in _repeated(trips, steps) if trip.same and not _computes(trip)]


def _repeated(trips: Iterable[RoundTrip], steps: int | None) -> list[RoundTrip]:
    return [trip for trip in trips if trip.count >= (steps or REPEATED)]


def _computes(trip: RoundTrip) -> bool:
    return trip.computing_us >= ON_HOST * trip.idle_us
