"""Events of modules that are given the same row several times in one batch."""

from __future__ import annotations

from . import Event, Line


class RepeatedRowsLookEvent(Event, name="repeated_rows_look"):
    """The costly modules of one sampled step were looked at, whatever was found."""

    look: int | None  # sampled steps are numbered from 1; the first only tells which modules are costly
    step_s: float
    seconds: float  # of the calls below that were given repeated rows, without calls inside them
    backward_s: float  # that their parts of backward took
    repeated: float  # share of that time that goes with rows that were there before; by time


class RepeatedRowsEvent(Event, name="repeated_rows"):
    """The calls of one module by one line in such a step, all of them given rows that repeat."""

    look: int | None
    module: str | None
    calls: int
    seconds: float
    backward_s: float
    rows: int  # of all these calls, told apart by all that differs from row to row
    distinct: int  # of these
    times: int  # that each row comes in one call; 0: not each as often
    together: bool  # what is alike lies next to each other
    operations: int  # in the graphs of these calls
    weight_bytes: int  # of the module's parameters, for each of these calls
    by_chance: bool  # it draws random numbers: what it returned for a row differs each time
    normalised: bool  # a batch normalisation inside counts the rows
    at: Line | None
