"""Writes a trace with tracks of our own added, to be looked at: every original byte is kept and streamed.

Our events go to the front of the list of events, whose order means nothing. A file that was cut off is closed
behind its last whole event.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import orjson

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.dataclass import dataclass
from perfdoctor.trace.parse.repair import EVENT_BEGIN
from perfdoctor.trace.parse.source import TraceSource

PROCESS = "perfdoctor"
PID = 1_885_696_614  # "perf" in ASCII: no process has so high a number
TOP_OF_THE_PAGE = -1  # sort index: processes of a trace begin at 0
TAIL_BYTES = 4 << 20  # held back to see how the file ends; events are a thousand times shorter
EVENT = re.compile(EVENT_BEGIN)
BETWEEN = " \t\r\n,"
FAST = 1  # of gzip's levels: a trace shrinks to a tenth, and five times as fast as at the usual 9


@dataclass(frozen=True)
class Slice:
    """Something that lasted, on one of our tracks. Time stamps are on the trace's clock."""

    track: str
    name: str
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class Counter:
    """A value that holds from `at_ns` on."""

    name: str
    at_ns: int
    value: float


TrackEvent = Slice | Counter


def merge(
    path: Path,
    events: Sequence[TrackEvent],
    out: Path,
    limit_bytes: int,
    elsewhere: str = "name another place",
) -> None:
    """Write the trace at `path` with our events to `out`, compressed if its name ends in .gz.

    `out` appears when it is complete. Raises NotATrace where the file holds no list of events;
    `elsewhere` says what to type where `out` cannot be written.
    """
    if out.exists() and out.samefile(path):
        raise PerfdoctorError(f"{out} is the trace itself", elsewhere)
    draft = out.with_name(out.name + ".part")
    try:
        with _opened(draft, out.suffix == ".gz") as file:
            for block in _merged(TraceSource(path, limit_bytes), list(_encoded(events))):
                file.write(block)
        os.replace(draft, out)
    except OSError as error:
        raise PerfdoctorError(f"cannot write {out}: {error.strerror or error}", elsewhere) from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _opened(path: Path, packed: bool) -> IO[bytes]:
    return gzip.open(path, "wb", compresslevel=FAST) if packed else open(path, "wb")  # type: ignore[return-value]


def _merged(source: TraceSource, events: Sequence[bytes]) -> Iterator[bytes]:
    """The file block by block, our events behind the bracket that opens the list of events."""
    blocks = iter(source)
    before, opening, held = source.up_to_events(blocks)
    yield before + opening
    yield b",\n".join(events)
    comma = b",\n" if events else b""
    for block in blocks:
        held += block
        if len(held) > TAIL_BYTES:
            yield comma + held[:-TAIL_BYTES]
            held, comma = held[-TAIL_BYTES:], b""
    closed = _closed(held, "[" if opening.strip() == b"[" else '{"traceEvents": [')
    yield closed if closed.lstrip().startswith(b"]") else comma + closed


def _closed(tail: bytes, opened: str) -> bytes:
    """The end of a file whose list was `opened` so; one that was cut off is closed behind its last event.

    A long end without any event is what a file says of itself, and stays as it is.
    """
    text = tail.decode("utf-8", "surrogateescape")
    end = _end_of_events(text)
    if _is_whole(opened + text[end:]) or (not end and len(tail) == TAIL_BYTES):
        return tail
    whole = text[:end].rstrip(BETWEEN) + ("\n]}\n" if opened.startswith("{") else "\n]\n")
    return whole.encode("utf-8", "surrogateescape")


def _end_of_events(text: str) -> int:
    """Where the last event that can be read ends."""
    decoder, end = json.JSONDecoder(strict=False), 0
    begin = EVENT.search(text)
    while begin is not None:
        try:
            event, after = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            after = begin.end()
        else:
            end = after if "ph" in event else end
        begin = EVENT.search(text, after)
    return end


def _is_whole(text: str) -> bool:
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _encoded(events: Iterable[TrackEvent]) -> Iterator[bytes]:
    """Our events as JSON, behind the names of their process and tracks."""
    tracks: dict[str, int] = {}
    yield from _process()
    for event in events:
        if isinstance(event, Counter):
            yield _event(ph="C", name=event.name, ts=_us(event.at_ns), args={"value": event.value})
            continue
        if event.track not in tracks:
            tracks[event.track] = len(tracks) + 1
            yield from _track(event.track, tracks[event.track])
        begin_us, lasting_us = _us(event.begin_ns), _us(event.end_ns - event.begin_ns)
        track = tracks[event.track]
        yield _event(ph="X", cat=PROCESS, name=event.name, tid=track, ts=begin_us, dur=lasting_us)


def _process() -> Iterator[bytes]:
    yield _event(ph="M", name="process_name", ts=_us(0), args={"name": PROCESS})
    yield _event(ph="M", name="process_sort_index", ts=_us(0), args={"sort_index": TOP_OF_THE_PAGE})


def _track(name: str, number: int) -> Iterator[bytes]:
    yield _event(ph="M", name="thread_name", tid=number, ts=_us(0), args={"name": name})
    yield _event(ph="M", name="thread_sort_index", tid=number, ts=_us(0), args={"sort_index": number})


def _event(tid: int = 0, **fields: object) -> bytes:
    return orjson.dumps({"pid": PID, "tid": tid} | fields)


def _us(ns: int) -> orjson.Fragment:
    """Microseconds with three decimals: a float could not hold nanoseconds since the epoch."""
    return orjson.Fragment(f"{ns // 1000}.{ns % 1000:03d}")
