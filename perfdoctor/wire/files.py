"""Files that survive the death of their writer: fixed-width rows in mapped memory, and JSON lines.

Rows go through a memory map because `os.write` gives up the interpreter lock: beside one busy Python
thread that costs a millisecond on average, a packed row half a microsecond. Blocks are allocated before
they are mapped, since a page that the disk cannot hold would kill the process with SIGBUS.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
import time

from .events import Event
from .rows import GROW_BYTES, HEADER_BYTES, SCHEMA, VERSION, RowLayout


def header(layout: RowLayout, rank: int) -> bytes:
    """The first HEADER_BYTES of a file with these columns; only the line that they begin with is text."""
    fields = {
        "schema": f"{SCHEMA}{VERSION}",
        "kind": layout.kind,
        "rank": rank,
        "pid": os.getpid(),
        "row_bytes": layout.packer.size,
        "header_bytes": HEADER_BYTES,
        "columns": layout.described,
        "opened_ns": time.perf_counter_ns(),
        "opened_epoch_s": time.time(),
    }
    return (json.dumps(fields).encode() + b"\n").ljust(HEADER_BYTES - 1) + b"\n"


class _OpenFile:
    """A file that stays open, whatever the script does to descriptors.

    A script that becomes a daemon closes all that are open, and what it opens then may get our number.
    """

    def __init__(self, path: str, flags: int) -> None:
        self._path, self._flags = path, flags & ~os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        status = os.fstat(self._descriptor)
        self._file = status.st_dev, status.st_ino

    def descriptor(self) -> int:
        """The number at which this very file is open. Raises OSError where it cannot be opened again."""
        if not self._is_ours():
            self._descriptor = os.open(self._path, self._flags, 0o600)
            status = os.fstat(self._descriptor)
            self._file = status.st_dev, status.st_ino
        return self._descriptor

    def _is_ours(self) -> bool:
        try:
            status = os.fstat(self._descriptor)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._file


class MappedRows:
    """Rows packed into a memory-mapped file that this process alone writes.

    Raises FileExistsError where the file is there already, OSError where it cannot be made or grown.
    """

    def __init__(self, path: str, layout: RowLayout, rank: int) -> None:
        self._layout = layout
        self._open = _OpenFile(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        descriptor = self._open.descriptor()
        self._size = HEADER_BYTES + GROW_BYTES
        self._offset = HEADER_BYTES
        try:
            allocate(descriptor, 0, self._size)
        except OSError:
            os.close(descriptor)
            os.unlink(path)  # nothing can be in it
            raise
        os.pwrite(descriptor, header(layout, rank), 0)
        self.map = mmap.mmap(descriptor, self._size)
        self._pack_into = layout.packer.pack_into
        self._row_bytes = layout.packer.size

    def add(self, *values: float) -> None:
        """Append one row."""
        offset = self.place()  # which may replace the map
        self._pack_into(self.map, offset, *values)

    def place(self) -> int:
        """The offset in `map` at which the caller packs one more row: in each step, `add` copies it twice."""
        offset = self._offset
        end = self._offset = offset + self._row_bytes
        if end > self._size:
            self._offset = offset
            self._grow()
            self._offset = end
        return offset

    def amend_loss(self, row: int, value: float) -> None:
        """Add `value` to the loss of row number `row`, which may have been written long ago."""
        offset = HEADER_BYTES + row * self._row_bytes + self._layout.offset("loss")
        if offset + 8 > self._size:
            return
        known = struct.unpack_from("<d", self.map, offset)[0]
        struct.pack_into("<d", self.map, offset, value if math.isnan(known) else known + value)

    def last(self, column: str) -> int:
        """The value of a whole-number column of the last row, or 0 without rows."""
        offset = self._offset - self._row_bytes
        if offset < HEADER_BYTES:
            return 0
        layout = self._layout
        return int(struct.unpack_from(layout.code(column), self.map, offset + layout.offset(column))[0])

    def _grow(self) -> None:
        descriptor = self._open.descriptor()
        allocate(descriptor, self._size, GROW_BYTES)
        self._size += GROW_BYTES
        self.map = mmap.mmap(descriptor, self._size)


class AppendedRows:
    """Rows appended with one write each to a file that the loader workers share.

    The training process makes the file with `prepare` before it starts a worker.
    """

    def __init__(self, path: str, layout: RowLayout) -> None:
        self._pack = layout.packer.pack
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    @staticmethod
    def prepare(path: str, layout: RowLayout, rank: int) -> None:
        """Make the file with its header, if it is not there."""
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            return
        os.write(descriptor, header(layout, rank))
        os.close(descriptor)

    def add(self, *values: float) -> None:
        """Append one row."""
        os.write(self._descriptor, self._pack(*values))


class EventLog:
    """JSON lines, one write each; every line gets its event's name, time and process."""

    def __init__(self, path: str) -> None:
        self._open = _OpenFile(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def add(self, event: Event) -> None:
        """Append one event."""
        entry = {"event": event.event, "t_ns": time.perf_counter_ns(), "pid": os.getpid()}
        entry.update(event.fields())
        line = json.dumps(entry, default=str, ensure_ascii=False)
        # no lone surrogates: JSON has none
        os.write(self._open.descriptor(), line.encode("utf-8", "replace") + b"\n")


def allocate(descriptor: int, start: int, length: int) -> None:
    """Reserve real blocks, so that a full disk is an OSError here and not a signal later."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, start, length)
    else:
        os.pwrite(descriptor, bytes(length), start)
