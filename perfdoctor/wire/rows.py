"""The layout of a rows file: a text header of fixed size, then rows of fixed width.

Some bytes of the header stay in use while the file grows: both sides talk to each other through them.
"""

from __future__ import annotations

import struct

SCHEMA = "perfdoctor.rows/"  # in the header, followed by the version
VERSION = 1  # of the header and its bytes; new columns need no new version, since the header names them all

HEADER_BYTES = 4096  # the rows begin behind it
TEXT_BYTES = 3968  # at most so much of the header is text
CONTROL_BYTE = 4094  # of a steps file: the outside writes 1 there to end the watch
SAMPLE_BYTE = 4093  # of a steps file: the outside writes 1 there to ask for stack samples from within
GROW_BYTES = 256 * 1024  # by which a mapped file grows at a time

_STRUCT_CODES = {"i8": "q", "u4": "I", "u2": "H", "i2": "h", "u1": "B", "f8": "d"}


class RowLayout:
    """The columns of a rows file: ((name, kind), ...) with numpy's short names of the kinds.

    Files that were written before columns were `added` lack those, and are read without them.
    """

    def __init__(self, kind: str, columns: tuple[tuple[str, str], ...], added: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.columns = columns
        self.added = added
        self.packer = struct.Struct(_format(columns))

    @property
    def described(self) -> list[tuple[str, str]]:
        """Names and numpy types of the columns, byte order included."""
        return [(name, "<" + code) for name, code in self.columns]

    @property
    def required(self) -> list[tuple[str, str]]:
        """Those of them that a file has, however old it is."""
        return [column for column in self.described if column[0] not in self.added]

    def packer_of(self, *names: str) -> struct.Struct:
        """Packs these columns alone, in the order of the layout; the others are zeros then."""
        codes = ((name, _STRUCT_CODES[code]) for name, code in self.columns)
        return struct.Struct("<" + "".join(c if n in names else f"{struct.calcsize(c)}x" for n, c in codes))

    def code(self, column: str) -> str:
        """The struct format of one value of `column`."""
        return "<" + _STRUCT_CODES[dict(self.columns)[column]]

    def offset(self, column: str) -> int:
        """Where `column` begins within a row, in bytes."""
        position = [name for name, _ in self.columns].index(column)
        return struct.calcsize(_format(self.columns[:position]))


def _format(columns: tuple[tuple[str, str], ...]) -> str:
    return "<" + "".join(_STRUCT_CODES[code] for _, code in columns)


def version_of(schema: object) -> int | None:
    """The version that the header of a rows file names, or None where it is no such header."""
    if not isinstance(schema, str) or not schema.startswith(SCHEMA):
        return None
    number = schema[len(SCHEMA) :]
    return int(number) if number.isascii() and number.isdigit() else None
