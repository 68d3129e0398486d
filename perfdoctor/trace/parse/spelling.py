"""How a file spells its events: what stands around them, between their fields and before their arguments.

    kineto's lines                               indented by a JSON encoder    one behind the other
      {                                            {                             {"ph": "X", "cat": ...,
        "ph": "X", "cat": "cpu_op", "name": ...      "ph": "X",                  "ts": 1661203462598.738,
        "ts": 1661203462598738, "dur": 19,           "cat": "cpu_op",            "dur": 19, "args": {...}},
        "args": {                                    ...                         {"ph": "X", ...
          ...                                        "ts": 1661203462598.738,
        }                                            "dur": 19,
      },                                             "args": {...

The first events of a file tell. An event begins at a brace on a line of its own at its indentation; or, one
behind the other, at a brace behind the last event's, with one of the fields that writers begin an event with.
"""

from __future__ import annotations

import re

import numpy as np

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trace.parse.columns import Flags, Ints
from perfdoctor.trace.parse.digits import WORD, Bytes, words_at

INDENTED = re.compile(rb'\n( *)\{\n( *)"(?:ph|name)":')
IN_ONE_LINE = re.compile(rb'\s*\{"(?:ph|name)":')
PARTED = re.compile(rb'\}(\s*,\s*)\{"ph":')
FIRST_FIELDS = ('"ph":', '"name":')
WIDEST = 16  # columns that an event may be indented by, and blanks between two of them


@dataclass(frozen=True)
class Spelling:
    """The spelling of one file."""

    gap: bytes  # between the closing brace of one event and the brace that opens the next
    behind: bytes  # between that brace and the first field
    end: bytes  # between the closing brace of an event's arguments and its own
    is_sure: bool  # whether nothing but an event opens as one does

    @property
    def before(self) -> bytes:
        """What stands before a brace that opens an event."""
        return self.gap[self.gap.index(b"\n") :] if self.is_sure else b"}" + self.gap

    @property
    def boundary(self) -> bytes:
        """What only stands between two events; what follows their list may look alike but for the field."""
        return b"}" + self.gap + b"{" + self.behind + b'"ph":'

    @property
    def closing(self) -> int:
        """How far the end of an event's arguments is from the brace that opens the next event."""
        return len(self.end) + len(b"}") + len(self.gap)

    def opens(self, text: Bytes) -> Ints:
        """Where the braces are that open events."""
        braces = np.flatnonzero(text == ord("{"))
        braces = braces[text[braces + 1] == (self.behind or b'"')[0]]  # first, since it leaves few
        before = self.before
        braces = braces[spells(text, braces - len(before), before)]
        if self.is_sure:
            return braces  # type: ignore[no-any-return]
        begin_events = [spells(text, braces + 1, field.encode()) for field in FIRST_FIELDS]
        opens: Ints = braces[np.logical_or.reduce(begin_events)]
        return opens

    def field_at(self, text: Bytes, comma: Ints) -> Ints:
        """Where the field begins that follows each comma: in the same line, or in the next one."""
        new_line = text[comma + 1] == ord("\n")
        behind: Ints = comma + 1 + np.where(new_line, len(self.behind), text[comma + 1] == ord(" "))
        return behind


def of(text: bytes) -> Spelling | None:
    """The spelling of a file whose list of events begins with `text`; None where it is none of these."""
    lines = INDENTED.search(text)
    if lines:
        event, field = b"\n" + lines[1], b"\n" + lines[2]
        known = len(event) <= WIDEST and len(event) < len(field) <= 2 * WIDEST
        return Spelling(b"," + event, field, event, is_sure=True) if known else None
    parted = PARTED.search(text) if IN_ONE_LINE.match(text) else None
    known = parted is not None and len(parted[1]) <= WIDEST
    return Spelling(parted[1], b"", b"", is_sure=False) if parted and known else None


def spells(text: Bytes, at: Ints, word: bytes) -> Flags:
    """Whether text[at:] begins with `word`, for each place."""
    fits = np.ones(len(at), bool)
    for place in range(0, len(word), WORD):
        part = word[place : place + WORD]
        mask = np.uint64(2 ** (8 * len(part)) - 1)
        fits &= (words_at(text, at + place) & mask) == np.uint64(int.from_bytes(part, "little"))
    return fits
