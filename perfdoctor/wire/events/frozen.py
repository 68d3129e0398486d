"""Events of modules that compute nothing trained, and of how often they are given the same rows."""

from __future__ import annotations

from . import Event, Line


class FrozenCallsEvent(Event, name="frozen_calls"):
    """Calls of one frozen module in one sampled step, from the first on in which they take a visible part."""

    look: int | None  # sampled steps are numbered from 1
    number: int  # of the module in the process
    module: str | None
    seconds: float
    step_s: float
    calls: int
    at: Line | None  # of the last call


class FrozenRowsEvent(Event, name="frozen_rows"):
    """Running totals of the rows that one frozen module was given, told apart by hashes of some elements."""

    number: int
    updates: int  # of the optimizers whose rows were looked at
    hits: int  # of them, those with rows that an earlier one had
    rows: int  # in these
    part: float  # of all different rows, chosen by their hash, so many were counted
    counted: int  # rows of that part
    different: int  # of these
    pairs: int  # of counted rows that are alike
    compared: int  # results for rows that came again
    alike: int  # of these
    seconds: float  # all calls that fed these updates
    row_bytes: int  # of the first result, a row
    changed: bool  # its parameters or buffers did not stay as they were
    by_chance: bool  # dropout is active inside, or a normalisation over the batch
