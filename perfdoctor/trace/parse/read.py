"""Reads a torch.profiler trace into columns, streaming: memory grows with what is kept, not with the file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from perfdoctor.errors import NotATrace
from perfdoctor.trace.parse import heap, spelling
from perfdoctor.trace.parse.columns import UNKNOWN, DeviceProperties, Skipped, Trace
from perfdoctor.trace.parse.events import whole
from perfdoctor.trace.parse.layout import BLANK, KnownLayout
from perfdoctor.trace.parse.repair import EVENT_BEGIN, decoded, loads, repair
from perfdoctor.trace.parse.source import TraceSource
from perfdoctor.trace.parse.tables import Tables

LIMIT_BYTES = 4 * 10**9  # of JSON: some 16 million events and half a gigabyte of columns
SEPARATOR = re.compile(rb"\}\s*,\s*(?=\{)")
# Where events part in text that is no valid JSON.
RESUMPTION = re.compile(rf"\}}\s*,\s*(?={EVENT_BEGIN})".encode())
ATTEMPTS = 16  # separators tried from the end of a piece; those inside arguments are no borders of events
RANK_IN_NAME = re.compile(r"rank[-_]?(\d+)", re.IGNORECASE)
# `worker-0_1234.` and `worker-0.lab.org_1234.` are a host's name and a process id: torch's own handler names
# files so.
WORKER_IN_NAME = re.compile(r"worker[-_]?(\d+)(?!\d|[a-z\d.-]*_\d+\.)", re.IGNORECASE)
BROKEN_END = re.compile(rf'\}}(?=\s*,\s*{EVENT_BEGIN}|\s*\]\s*(?:,\s*"|\}}?\s*$))')
BETWEEN = re.compile(r"[\s,]*")
ABOUT = re.compile(r'"(deviceProperties|distributedInfo|baseTimeNanoseconds)"\s*:\s*')  # that are of use here
BARREN_BYTES = 128 << 20  # without an event, after which none is expected any more
UNFINISHED_BYTES = 16 << 20  # an event longer than this is damage, not an event


def read(path: Path | str, limit_bytes: int = LIMIT_BYTES) -> Trace:
    """The trace at `path`: `.json` or `.json.gz`, from torch.profiler on CUDA, ROCm or the CPU alone.

    What is damaged or cut off is left out and counted in `skipped`. Raises NotATrace where nothing can be
    read and TraceTooLarge beyond `limit_bytes` of JSON.
    """
    heap.keep_freed()
    trace = _Reader(TraceSource(Path(path), limit_bytes)).read()
    heap.give_back()
    return trace


class _Reader:
    def __init__(self, source: TraceSource) -> None:
        self.source = source
        self.tables = Tables()
        self.layout: KnownLayout | None = None
        self.lost_bytes = self.lost_events = self.repaired = 0
        self.preamble = b""
        self.tail: str | None = None  # what follows the list of events; None: the list never ended
        self.is_about_damaged = False

    def read(self) -> Trace:
        blocks = iter(self.source)
        self.preamble, _, rest = self.source.up_to_events(blocks)
        spelled, rest = spelling.of(rest), rest.lstrip(BLANK)
        self.layout = KnownLayout(self.tables, spelled) if spelled else None
        taken, at_bytes = 0, self.source.bytes
        for block in blocks:
            rest = self._take(rest + block)
            if self.tables.events > taken:
                taken, at_bytes = self.tables.events, self.source.bytes
            elif self.source.bytes - at_bytes > BARREN_BYTES:
                self.source.cut = f"no event in {BARREN_BYTES >> 20} MB of it: the rest was not read"
                break
        rest = self._take(rest)
        self._finish(rest)
        return self._trace()

    def _take(self, text: bytes) -> bytes:
        """Take the whole events of `text`; returns the rest, which begins where an event does."""
        cut = self.layout.cut(text) if self.layout else 0
        if self.layout and cut:
            left = self._take_known(self.layout, memoryview(text)[:cut])
            return (left + text[cut:]).lstrip(BLANK)
        return self._take_as_json(text)

    def _take_known(self, known: KnownLayout, piece: memoryview) -> bytes:
        """Take a piece of a known layout; returns what is left of it."""
        look = known.look(piece)
        events = _together(look.odd)
        if events is None and not known.spelling.is_sure:
            return self._take_as_json(bytes(piece))
        known.take(look)
        self._add(look.odd, events)
        return b""

    def _add(self, pieces: list[bytes], events: list[Any] | None = None) -> None:
        """Take single events, which were decoded together if that went well, else one by one."""
        repaired: set[int] = set()
        if events is None:
            events = [decoded(piece) for piece in pieces]
            repaired = {place for place, event in enumerate(events) if event is None}
            events = [repair(pieces[at]) if at in repaired else event for at, event in enumerate(events)]
        lost = self.tables.add(events)
        self.lost_events += len(lost)
        self.lost_bytes += sum(len(pieces[place]) for place in lost)
        self.repaired += len(repaired.difference(lost))

    def _take_as_json(self, text: bytes) -> bytes:
        """Take whole events of any layout. That a piece decodes proves that it was cut between events."""
        if text.isspace():
            return b""
        borders = [separator.start() + 1 for separator in SEPARATOR.finditer(text)]
        for border in borders[: -ATTEMPTS - 1 : -1]:
            events = decoded(b"[" + text[:border].lstrip(BLANK) + b"]")
            if events is not None:
                self.lost_events += len(self.tables.add(events))
                return text[border:]
        return self._salvage(text) if borders else self._drop_endless(text)

    def _salvage(self, text: bytes) -> bytes:
        """Take what can be repaired of text that is no valid JSON; the last event may be unfinished."""
        begin, pieces = 0, []
        for border in RESUMPTION.finditer(text):
            pieces.append(text[begin : border.start() + 1].lstrip(BLANK))
            begin = border.start() + 1
        self._add(pieces, _together(pieces))
        return self._drop_endless(text[begin:])

    def _drop_endless(self, text: bytes) -> bytes:
        if len(text) <= UNFINISHED_BYTES:
            return text
        self.lost_bytes += len(text)
        self.lost_events += 1
        return b""

    def _finish(self, rest: bytes) -> None:
        """Take the last events, up to the end of their list, and what follows it."""
        text, at = rest.decode("utf-8", "surrogateescape"), 0
        decoder = json.JSONDecoder(strict=False)
        while True:
            at = BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # matches nothing, too
            if at == len(text):
                return
            if text[at] == "]":
                self.tail = text[at + 1 :]
                return
            try:
                _, stop = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                end = BROKEN_END.search(text, at)
                stop = end.start() + 1 if end else len(text)
            self._add([text[at:stop].encode("utf-8", "surrogateescape")])
            at = stop

    def _trace(self) -> Trace:
        tables = self.tables.finished()
        kept = ("ops", "calls", "annotations", "functions", "device", "syncs", "memory")
        if not any(len(tables[name]) for name in kept):
            what = "an event that torch.profiler writes" if self.tables.events else "any event"
            raise NotATrace(
                f"{self.source.path} does not hold {what}",
                "was the profiler stopped before a step was recorded?",
            )
        about = self._about()
        distributed = about.get("distributedInfo")
        distributed = distributed if isinstance(distributed, dict) else {}
        name = self.source.path.name
        named = RANK_IN_NAME.search(name) or WORKER_IN_NAME.search(name)
        rank = whole(distributed.get("rank"), int(named[1]) if named else UNKNOWN)
        world_size = whole(distributed.get("world_size"))
        return Trace(
            file=str(self.source.path),
            devices=_devices(about.get("deviceProperties")),
            rank=rank if rank >= 0 else None,
            world_size=world_size if world_size > 0 else None,
            epoch_offset_ns=whole(about.get("baseTimeNanoseconds"), 0),
            skipped=self._skipped(),
            **tables,
        )

    def _about(self) -> dict[str, Any]:
        """What the file says of itself, before and after its events."""
        about: dict[str, Any] = {}
        head = self.preamble.strip()
        tail = (self.tail or "").strip().lstrip(",").encode("utf-8", "surrogateescape")
        for text in (head.rstrip(b", \r\n\t") + b"}" if head else b"{}", b"{" + tail):
            part = loads(text)
            if part is None and text != b"{":
                self.is_about_damaged, part = True, _salvaged(text)
            if isinstance(part, dict):
                about |= part
        return about

    def _skipped(self) -> Skipped:
        reasons = []
        if self.source.cut:
            reasons.append(self.source.cut)
        if self.tail is None:
            reasons.append("the file ends before its list of events")
        if self.is_about_damaged:
            reasons.append("what it says of the recording is damaged")
        if self.lost_events:
            reasons.append(f"{_events(self.lost_events)} could not be read")
        repairs = self.repaired + (self.layout.repaired if self.layout else 0)
        if repairs:
            reasons.append(
                f"{_events(repairs)} {'was' if repairs == 1 else 'were'} not valid JSON, and repaired"
            )
        return Skipped(
            bytes=self.lost_bytes,
            events=self.lost_events,
            because="; ".join(reasons) or None,
            device_events=self.tables.lost_of_device,
            is_cut=bool(self.source.cut) or self.tail is None,
        )


def _events(count: int) -> str:
    return f"{count:,} event" + ("" if count == 1 else "s")


def _together(pieces: list[bytes]) -> list[Any] | None:
    """The events, decoded together; None where that does not go well."""
    events = decoded(b"[" + b",".join(pieces) + b"]")
    return events if events is not None and len(events) == len(pieces) else None


def _salvaged(text: bytes) -> dict[str, Any]:
    """The values in damaged JSON that are whole, by their keys."""
    plain, decoder = text.decode("utf-8", "replace"), json.JSONDecoder(strict=False)
    whole_ones = {}
    for key in ABOUT.finditer(plain):
        try:
            whole_ones[key[1]], _ = decoder.raw_decode(plain, key.end())
        except (ValueError, RecursionError):
            continue
    return whole_ones


def _devices(properties: Any) -> tuple[DeviceProperties, ...]:
    """The devices that the trace describes."""
    entries = properties if isinstance(properties, list) else []
    return tuple(
        DeviceProperties(
            id=whole(entry.get("id"), number),
            name=str(entry.get("name", "")),
            memory_bytes=_positive(entry.get("totalGlobalMem")),
            major=_positive(entry.get("computeMajor")),
            minor=whole(entry.get("computeMinor"), 0) if "computeMinor" in entry else None,
            multiprocessors=_positive(entry.get("numSms")),
            warp=_positive(entry.get("warpSize")),
        )
        for number, entry in enumerate(entries)
        if isinstance(entry, dict)
    )


def _positive(value: Any) -> int | None:
    number = whole(value)
    return number if number > 0 else None
