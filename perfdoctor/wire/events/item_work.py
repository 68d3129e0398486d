"""Events of items: what a dataset's code does again for every item."""

from __future__ import annotations

from typing import Any

from . import Event

FAR = 0.25  # of the calls compared: so many of them between two are not of the same item or file


class ItemWorkEvent(Event, name="item_work"):
    """What the user's code did in the items that were looked at; totals of a process.

    `functions`: at (where one begins), ends (how often it was seen to end), same (checksums of the locals
    that held the same at every end, by name), varied (the others' names, but for what could not be read),
    plain (names of those that held a mere number).
    `calls`, by line of the user's and Python function called there: at, callee, module, file, line, function
    (the callee's own), calls, compared (calls whose arguments and result could be read), repeated (of those,
    had arguments and result of an earlier one), far (of those, came at least the part FAR of all compared
    calls later), differed (had only its arguments), arguments (different ones).
    `small`, by line of the user's and what is called there in C: at, callee, calls.
    """

    items: int
    functions: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    small: list[dict[str, Any]]
