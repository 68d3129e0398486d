"""Events of embedding tables: how much of one a batch needs."""

from __future__ import annotations

from . import Event, Line


class EmbeddingTableEvent(Event, name="embedding_table"):
    """A backward that writes a dense gradient for a table of which it looked up single rows."""

    path: str  # in the model
    rows: int
    bytes: int
    lookups: int  # of this backward: no more rows than that have a gradient
    calls: int  # look-ups of this backward: each makes a gradient as large as the table
    optimizer: str | None  # the class of the one that updates it
    of_elements: float  # share of that optimizer's elements
    of_all: float  # share of the elements of all optimizers
    at: Line | None  # that constructs it


class RenormalisationLookEvent(Event, name="renormalisation_look"):
    """Two steps in a row were looked at call by call."""

    look: int | None  # counted from 1
    step_s: float  # of the second step, without what looking took
    calls: int  # of the second step, look-ups that renormalise rows first
    seconds: float  # that they took


class RenormalisedTableEvent(Event, name="renormalised_table"):
    """What was looked up in the tables of one line in such a step, with `max_norm`."""

    look: int | None
    calls: int
    seconds: float
    lookups: int  # rows, each as often as it was asked for
    width: int  # elements of a row, in the longest call
    at: Line | None  # that constructs the tables; that looks up where they are no module's
    called: Line | None  # that makes the longest call
