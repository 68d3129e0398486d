"""Events of items: whether they are the same each time they are prepared."""

from __future__ import annotations

from . import Event


class ItemRepeatsEvent(Event, name="item_repeats"):
    """Some items of a map-style dataset were prepared."""

    loader: int | None
    indices: list[int]
    checksums: list[int]  # of what each of them holds, in the same order
