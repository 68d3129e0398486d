"""The bytes of a trace file, plain or compressed, block by block."""

from __future__ import annotations

import errno
import os
import re
import select
import stat
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from perfdoctor.errors import NotATrace, TraceTooLarge

BLOCK_BYTES = 1 << 20  # read at once: it and what is made of it stay in the processor's cache
GZIP_RATIO = 10  # that traces usually shrink by
MOST_GZIP_RATIO = 200  # an event of some 300 bytes holds two time stamps, which take more than 1.5
RATIO_COUNTS_BYTES = 32 << 20  # of text, from which on its ratio is judged
WRITER_S = 5.0  # for somebody to open a named pipe for writing
LOOK_MS = 50  # between looks at a pipe that nobody writes to yet
MAGIC_BYTES = 8  # that tell what a file is
GZIP = b"\x1f\x8b"
WIDE = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32"}
OTHERS = {b"PK\x03\x04": "a zip archive", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd",
          b"SQLite": "an SQLite database"}  # fmt: skip
TAR, TAR_AT = b"ustar", 257  # in an archive's first 512 bytes, compressed or not
UNPACK = "unpack it first; .json and .json.gz can be read"
LIST_BEGIN = re.compile(rb'"traceEvents"\s*:\s*\[|^\s*\[(?=\s*(?:\{|\]))')
PREAMBLE_BYTES = 64 << 20  # a trace says what it is before its events begin
OPENING_BYTES = 4096  # no key, colon and bracket with the blanks between them take more
GIVE_A_TRACE = "give a file that torch.profiler's export_chrome_trace wrote"
MARK = b"\xef\xbb\xbf"  # UTF-8's byte order mark


class TraceSource:
    """A file as blocks of decompressed bytes. `cut` says why it ended early, once it has been read."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self.path = path
        self.limit_bytes = limit_bytes
        self.cut: str | None = None
        self.bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._blocks()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            hint = "check the path and its permissions"
            raise NotATrace(f"cannot read {self.path}: {reason}", hint) from None

    def up_to_events(self, blocks: Iterator[bytes]) -> tuple[bytes, bytes, bytes]:
        """Read `blocks` of this file up to its list of events: what comes before, what opens the list, and
        what was read of it. Raises NotATrace where there is none.
        """
        text = b""
        for block in blocks:
            looked = len(text) - OPENING_BYTES if len(text) > BLOCK_BYTES else 0
            text = text + block if text else block.lstrip()
            start = LIST_BEGIN.search(text, looked)
            if start:
                return text[: start.start()], start.group(), text[start.end() :]
            if self.bytes > PREAMBLE_BYTES:
                break
        raise NotATrace(
            f"{self.path} is not a torch.profiler trace: {_why_not(text)}",
            GIVE_A_TRACE,
        )

    def _blocks(self) -> Iterator[bytes]:
        file, begin = self._opened()
        with file:
            begin += file.read(MAGIC_BYTES - len(begin))
            self._refuse(begin)
            if begin.startswith(GZIP):
                blocks = self._inflated(file, begin)
            else:
                first = begin + file.read(BLOCK_BYTES - len(begin))
                blocks = chain([first], iter(lambda: file.read(BLOCK_BYTES), b""))
            for block in blocks:
                if not self.bytes and block.startswith(TAR, TAR_AT):
                    raise NotATrace(f"{self.path} is a tar archive, not a trace", UNPACK)
                if not self.bytes and block.startswith(MARK):
                    block = block[len(MARK) :]
                self.bytes += len(block)
                if self.bytes > self.limit_bytes:
                    raise TraceTooLarge(
                        f"{self.path} holds more than {self.limit_bytes / 1e9:g} GB of JSON",
                        "raise the limit with --limit-gb, or record fewer steps",
                    )
                yield block

    def _opened(self) -> tuple[BinaryIO, bytes]:
        """The file, or a pipe that somebody writes to, and what was read of it. Raises NotATrace, OSError."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        begin: bytes | None = b""
        with ExitStack() as closing:
            closing.callback(os.close, descriptor)
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISFIFO(mode):
                begin = _first_of_pipe(descriptor)
            elif stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            elif not stat.S_ISREG(mode):
                raise NotATrace(f"{self.path} is a device, not a file", GIVE_A_TRACE)
            if begin is None:
                raise NotATrace(f"{self.path} is a pipe that nobody writes to", GIVE_A_TRACE)
            os.set_blocking(descriptor, True)
            closing.pop_all()
        return open(descriptor, "rb"), begin

    def _refuse(self, begin: bytes) -> None:
        """Say what a file is that is no text."""
        if not begin:
            hint = "the program may have ended before its profiler wrote it"
            raise NotATrace(f"{self.path} is empty", hint)
        for mark, encoding in WIDE.items():
            if begin.startswith(mark):
                raise NotATrace(
                    f"{self.path} is {encoding} text, and traces are UTF-8",
                    f"convert it: iconv -f {encoding} -t UTF-8 {self.path} > trace.json",
                )
        for magic, kind in OTHERS.items():
            if begin.startswith(magic):
                raise NotATrace(f"{self.path} is {kind}, not a trace", UNPACK)

    def _inflated(self, file: BinaryIO, begin: bytes) -> Iterator[bytes]:
        """Decompress, member by member; what comes before damage is kept.

        Raises NotATrace where hardly anything unpacks to no end of text.
        """
        inflate = zlib.decompressobj(wbits=31)
        packed_bytes = 0
        while True:
            packed = inflate.unconsumed_tail or inflate.unused_data
            if not packed:
                packed, begin = begin + file.read(BLOCK_BYTES >> 3), b""
                packed_bytes += len(packed)
            if not packed:
                break
            if inflate.eof:
                if not packed.startswith(GZIP):
                    break  # padding behind the last member
                inflate = zlib.decompressobj(wbits=31)
            try:
                block = inflate.decompress(packed, BLOCK_BYTES)
            except zlib.error:
                self.cut = "its compressed data is damaged"
                return
            if block:
                yield block
            if self.bytes > max(RATIO_COUNTS_BYTES, MOST_GZIP_RATIO * packed_bytes):
                raise NotATrace(
                    f"{self.path} unpacks to more than {MOST_GZIP_RATIO} times its size, as no trace does",
                    GIVE_A_TRACE,
                )
        if not inflate.eof:
            self.cut = "its compressed data is cut short"


def _first_of_pipe(descriptor: int) -> bytes | None:
    """What was read of a pipe by looking whether somebody writes to it, often nothing; None if nobody does.

    Waits a little for who may be about to.
    """
    pipe = select.poll()
    pipe.register(descriptor, select.POLLIN)
    until_s = time.monotonic() + WRITER_S
    while time.monotonic() < until_s:
        if pipe.poll(LOOK_MS):
            return b""
    try:
        return os.read(descriptor, MAGIC_BYTES) or None
    except BlockingIOError:  # it is open for writing, and nothing was written yet
        return b""


def _why_not(text: bytes) -> str:
    """What a file is that holds no list of events."""
    plain = text.lstrip()[:1]
    if plain not in (b"{", b"["):
        return "it is not JSON"
    return "it has no traceEvents" if plain == b"{" else "it is a list of something else"
