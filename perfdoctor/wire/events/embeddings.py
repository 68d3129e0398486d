"""Events of embedding tables: how much of one a batch needs."""

from __future__ import annotations

from . import Event, Line


class EmbeddingTableEvent(Event, name="embedding_table"):
    """A backward that writes a dense gradient for a table of which it looked up single rows."""

    path: str  # in the model
    rows: int
    bytes: int
    lookups: int  # of this backward: no more rows than that have a gradient
    optimizer: str | None  # the class of the one that updates it
    of_elements: float  # share of that optimizer's elements
    of_all: float  # share of the elements of all optimizers
    at: Line | None  # that constructs it
