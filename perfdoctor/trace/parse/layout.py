"""The layout kineto writes, taken apart without decoding it: most of an event is never looked at.

Each event is a block of lines between `  {` and `  }`. Its first lines, up to `"ts"`, say what happened and
where; they repeat, so each is decoded once and looked up from then on. Then come the numbers, parsed many at
a time. Arguments are decoded for device events, runtime calls and the operators worth it. Whatever does not
fit is handed back to be decoded as JSON: a file of another layout is read slower, never wrongly.

      {                                                    {
        "ph": "X", "cat": "cpu_op", "name": ...,             "ph": "X",
        "ts": 1661203462598738, "dur": 19,                   "cat": "cpu_op", ...
        "args": {                                            "ts": 4406252913109.787,
          ...                                                "dur": 2759.427
        }                                                    ,
      },                                                     "args": ...
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

import numpy as np

from perfdoctor.trace.parse import digits
from perfdoctor.trace.parse.columns import UNKNOWN, Flags, Ints
from perfdoctor.trace.parse.events import HOST_TABLES, EventTable, Heads
from perfdoctor.trace.parse.repair import loads, repair
from perfdoctor.trace.parse.tables import Json, Tables

BOUNDARY = b"\n  {\n"  # the line that opens an event
BLANK = b" \r\n\t,"  # between events
NEEDED = ("ph", "cat", "name", "pid", "tid")  # what the first lines of an event must say
FLOWS = b"stf"  # arrows from launch to kernel: the correlation says it too
ODD = -1  # first lines that must be decoded together with the rest of their event
PHASE = len('    "ph": "')  # where the letter stands in an event's first line
FIELD = 4  # columns before the quote of a field's name
STAMP = len('    "ts": ')
BETWEEN = len(', "dur": ')
APART = 3  # lines from the time stamp to the arguments where duration and comma have lines of their own
TAIL = 24  # bytes at the end of a line that hold the space before a duration
CORRELATION_KEY = '"correlation": '
CORRELATION = re.compile(rb'"correlation": (\d{1,18})\b')
ARGUMENTS = len('    "args": ')
END = b"\n  },\n"  # of an event that is not the last
ARGUMENTS_END = b"\n    }"  # before it, where an event has arguments
SHAPES = b'"Input '  # "Input Dims", "Input type"
STACK = b'"Call stack": "'
MARGIN = b" " * 63 + b"\n"  # around a piece, so that looking a little beyond either end is no mistake


class Beginnings(dict[bytes, int]):
    """The first lines of events: by their text, the number of the head they stand for."""

    def __init__(self, heads: Heads) -> None:
        super().__init__()
        self.heads = heads
        self.repaired: set[int] = set()  # heads whose lines were no valid JSON

    def __missing__(self, text: bytes) -> int:
        block = b"{" + text.rstrip(b" ,\n") + b"}"
        event = loads(block)
        broken = event is None
        event = repair(block) if broken else event
        if event is None or any(key not in event for key in NEEDED):
            self[text] = ODD
            return ODD
        self[text] = number = self.heads[tuple(event[key] for key in NEEDED)]
        if broken:
            self.repaired.add(number)
        return number


@dataclass(frozen=True)
class Events:
    """The complete events in a piece of text, n of them. Their arguments are somewhere in [at, stop)."""

    head: Ints  # (n,) number of their first lines
    begin_ns: Ints
    duration_ns: Ints
    at: Ints  # (n,) where the line of their time stamp begins
    below: Ints  # (n,) where the line of their arguments begins, if it is where it should be
    stop: Ints  # (n,) where the next event begins

    def only(self, rows: Ints) -> Events:
        """Some of them."""
        return Events(*(getattr(self, field.name)[rows] for field in fields(self)))


class KinetoLayout:
    """Takes pieces of a file that consist of whole events."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.heads = Beginnings(tables.heads)
        self.repaired = 0  # events whose first lines were no valid JSON

    def take(self, piece: bytes) -> list[bytes]:
        """Take the events in `piece`; returns the text of those that are left to decode.

        `piece` begins where an event does, and ends where a line opens the next.
        """
        data = MARGIN + piece + MARGIN
        text = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(text == ord("\n"))
        begins = np.concatenate(([0], ends[:-1] + 1))
        length = ends - begins
        opens = np.flatnonzero(length == 3)
        opens = opens[text[begins[opens] + 2] == ord("{")]
        before = data[: begins[opens[0]] if len(opens) else len(data)].strip(BLANK)
        others = [before] if before else []
        if not len(opens):
            return others
        stamps = _stamps(text, begins, length)
        event = np.searchsorted(opens, stamps) - 1  # that each time stamp belongs to
        first = (event >= 0) & (np.diff(event, prepend=-1) != 0)
        stamps, event = stamps[first], event[first]
        begin_ns, duration_ns, good, apart = _times(text, begins, ends, stamps)
        phase = _phases(text, begins[opens + 1])
        good &= phase[event] == ord("X")
        odd = ~np.isin(phase, np.frombuffer(FLOWS, np.uint8))
        odd[event[good]] = False
        stamps, event = stamps[good], event[good]
        head_begin, head_end = begins[opens[event] + 1].tolist(), begins[stamps].tolist()
        heads = self.heads
        head = np.array([heads[data[i:j]] for i, j in zip(head_begin, head_end, strict=True)], np.int64)
        odd[event[head == ODD]] = True
        event_end = np.append(begins[opens[1:]], len(data) - len(MARGIN))
        below = begins[np.minimum(stamps + np.where(apart[good], APART, 1), len(begins) - 1)]
        events = Events(head, begin_ns[good], duration_ns[good], begins[stamps], below, event_end[event])
        self._append(data, events.only(np.flatnonzero(head != ODD)))
        spans = zip(begins[opens[odd]].tolist(), event_end[odd].tolist(), strict=True)
        odd_ones = [data[i:j].strip(BLANK) for i, j in spans]
        self.tables.events += len(opens) - len(odd_ones)  # those are counted when they are decoded
        return others + odd_ones

    def _append(self, data: bytes, events: Events) -> None:
        """Put events into their tables."""
        heads, tables = self.tables.heads.table(), self.tables
        self.repaired += (
            int(np.isin(events.head, list(self.heads.repaired)).sum()) if self.heads.repaired else 0
        )
        goes_to = heads["table"][events.head]
        for table in (*HOST_TABLES, EventTable.CALLS, EventTable.DEVICE, EventTable.SYNCS):
            rows = np.flatnonzero(goes_to == table)
            if not len(rows):
                continue
            chosen = events.only(rows)
            columns = (heads[chosen.head], chosen.begin_ns, chosen.duration_ns)
            if table is EventTable.DEVICE:
                tables.append_device(*columns, _arguments(data, chosen))
            elif table is EventTable.SYNCS:
                tables.append_syncs(*columns, _arguments(data, chosen))
            elif table is EventTable.CALLS:
                tables.append_calls(*columns, _correlations(data, chosen))
            else:
                self._append_details(data, chosen, np.flatnonzero(heads["details"][chosen.head]))
                tables.append_host(table, *columns)

    def _append_details(self, data: bytes, events: Events, rows: Ints) -> None:
        """Keep what was recorded of the operators worth it."""
        spans = zip(rows.tolist(), events.at[rows].tolist(), events.stop[rows].tolist(), strict=True)
        kept = [row for row, i, j in spans if data.find(SHAPES, i, j) > 0 or data.find(STACK, i, j) > 0]
        self.tables.append_details(kept, _arguments(data, events.only(np.array(kept, np.int64))))


def _phases(text: digits.Bytes, at: Ints) -> digits.Bytes:
    """The letter after `    "ph": "`, with which the first line of an event, at text[at:], begins; or 0."""
    letters: digits.Bytes = text[at + PHASE] * _spells(text, at + FIELD, '"ph": "')
    return letters


def _stamps(text: digits.Bytes, begins: Ints, length: Ints) -> Ints:
    """The lines that begin with `    "ts": `."""
    lines = np.flatnonzero(length > STAMP)
    lines = lines[text[begins[lines] + FIELD + 1] == ord("t")]  # first, since it leaves few
    stamps: Ints = lines[_spells(text, begins[lines], '    "ts": ')]
    return stamps


def _spells(text: digits.Bytes, at: Ints, word: str) -> Flags:
    """Whether text[at:] begins with `word`, for each place."""
    fits = np.ones(len(at), bool)
    for place, letter in enumerate(word):
        fits &= text[at + place] == ord(letter)
    return fits


def _times(text: digits.Bytes, begins: Ints, ends: Ints, stamps: Ints) -> tuple[Ints, Ints, Flags, Flags]:
    """Of events by the lines of their time stamps: begin and duration in nanoseconds, (n,) int64; whether
    both are good; whether the duration has a line of its own.
    """
    apart = text[begins[stamps + 1] + FIELD + 1] == ord("d")  # the duration has a line of its own
    line = stamps + apart
    end = ends[line]
    end = end - (text[end - 1] == ord(","))
    begin = _after_space(text, end)
    stamp_end = np.where(apart, ends[stamps] - 1, begin - BETWEEN)
    duration_ns, good = digits.nanoseconds(text, begin, end)
    begin_ns, stamp_good = digits.nanoseconds(text, begins[stamps] + STAMP, stamp_end)
    good &= stamp_good & (text[begin - 6] == ord("d"))
    return begin_ns, duration_ns, good, apart


def _arguments(data: bytes, events: Events) -> list[Json]:
    """The arguments of each event, decoded all at once where they stand where they should."""
    text = np.frombuffer(data, np.uint8)
    begin, end = events.below + ARGUMENTS, events.stop - len(END)
    usual = (begin < end) & (text[begin] == ord("{")) & (text[end - 1] == ord("}"))
    if usual.all():
        spans = zip(begin.tolist(), end.tolist(), strict=True)
        together = loads(b"[" + b",".join([data[i:j] for i, j in spans]) + b"]")
        if together is not None and len(together) == len(begin):
            return together  # type: ignore[no-any-return]
    return [_argument(data[i:j]) for i, j in zip(events.at.tolist(), events.stop.tolist(), strict=True)]


def _argument(text: bytes) -> Json:
    """The arguments in an event's text from its time stamp on."""
    block = b"{" + text.rstrip(b" ,\n")
    event = loads(block) or repair(block)
    value = event.get("args") if isinstance(event, dict) else None
    return value if isinstance(value, dict) else {}


def _correlations(data: bytes, events: Events) -> Ints:
    """The correlation of each runtime call, (n,) int64: CUDA's is the last argument, others are searched."""
    text = np.frombuffer(data, np.uint8)
    end = events.stop - len(END) - len(ARGUMENTS_END)
    begin = _after_space(text, end)
    value, usual = digits.whole(text, begin, end)
    usual &= _spells(text, begin - len(CORRELATION_KEY), CORRELATION_KEY)
    for row in np.flatnonzero(~usual).tolist():
        entry = CORRELATION.search(data, int(events.at[row]), int(events.stop[row]))
        value[row] = int(entry[1]) if entry else UNKNOWN
    return value


def _after_space(text: digits.Bytes, end: Ints) -> Ints:
    """Where the word begins that ends at `end`: after the last space of the bytes before it."""
    tail = np.lib.stride_tricks.sliding_window_view(text, TAIL)[end - TAIL]
    begin: Ints = end - (tail[:, ::-1] == ord(" ")).argmax(axis=1)
    return begin
