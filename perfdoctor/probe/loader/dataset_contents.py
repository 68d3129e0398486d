"""Which data set a loader is made for: one that is made anew may hold what another one did.

A checksum of the attributes of the dataset tells, taken when a loader is first made for it: what it keeps
while it is used makes it no other one.
"""

from __future__ import annotations

from itertools import islice
from typing import Any
from zlib import crc32

from ..by_identity import ByIdentity
from ..checksum import BARE, FIELDS, UNREADABLE, Checksum, checksum
from ..containers import fields_of, is_a
from ..looks.op_recording import unseen


class DatasetContents:
    """The datasets of one process."""

    def __init__(self, dataset: type) -> None:
        self.dataset = dataset  # torch's class of them
        self.known: ByIdentity[Checksum] = ByIdentity()
        self.of = unseen(self._of)

    def _of(self, dataset: Any) -> Checksum:
        """The checksum of what a dataset holds; None where it cannot be read."""
        if not type(dataset).__weakrefoffset__:
            return checksum(dataset)
        if dataset not in self.known:
            self.known[dataset] = UNREADABLE  # as one in itself is
            self.known[dataset] = self._read(dataset)
        return self.known[dataset]

    def _read(self, dataset: Any) -> Checksum:
        kind = type(dataset)
        if kind.__basicsize__ > BARE or not kind.__dictoffset__:
            return checksum(dataset)
        fields = fields_of(dataset)
        parts = [(name, self._part(value)) for name, value in islice(fields.items(), FIELDS)]
        if any(part is UNREADABLE for _, part in parts):
            return UNREADABLE
        return crc32(f"{kind.__module__}.{kind.__qualname__} {len(fields)} {parts}".encode())

    def _part(self, value: Any) -> Checksum:
        """Of an attribute: a dataset inside another one is as deep as that."""
        return self._of(value) if is_a(value, self.dataset) else checksum(value)
