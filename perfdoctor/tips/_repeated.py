"""How code that is suggested repeats a statement of the user's."""

from __future__ import annotations

from perfdoctor.facts.user_source.parse import parsed_line
from perfdoctor.model.measured import Location

WIDEST = 100  # characters of a statement that is repeated whole


def repeated(at: Location | None) -> str | None:
    """The statement at a place, on one line; a long one by where it stands, None where none is known."""
    if at is None or not at.statement:
        return None
    if parsed_line(at.statement) is None or (at.whole is not None and len(at.whole) > WIDEST):
        return f"...  # all of the statement at line {at.line}"
    return at.statement
