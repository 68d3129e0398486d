"""Events taken apart without decoding them: most of an event is never looked at.

In the spellings that are known, each event says first what happened and where, up to `"ts"`; that repeats, so
each text is decoded once and looked up from then on. Then come the numbers, parsed many at a time. Arguments
are decoded for device events, and for the operators worth it where they do not repeat. Whatever does not fit
is handed back to be decoded as JSON: a file of another layout is read slower, never wrongly.
"""

from __future__ import annotations

import re
from dataclasses import fields

import numpy as np

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trace.parse import digits
from perfdoctor.trace.parse.columns import UNKNOWN, Flags, Ints
from perfdoctor.trace.parse.events import HOST_TABLES, EventTable, Heads
from perfdoctor.trace.parse.repair import loads, repair
from perfdoctor.trace.parse.spelling import Spelling, spells
from perfdoctor.trace.parse.tables import Json, Kept, Tables

BLANK = b" \r\n\t,"  # between events
NEEDED = ("ph", "name", "pid", "tid")  # what the first fields of an event must say
CATEGORY = "cat"  # and of an event that lasts
LASTING, INSTANT = "X", "i"  # phases of events that are taken
ODD = -1  # first fields that must be decoded together with the rest of their event
PHASE, STAMP, DURATION, ARGUMENTS = b'"ph":', b'"ts":', b'"dur":', b'"args":'
CORRELATION = b'"correlation":'
LARGE = re.compile(rb'"correlation": ?(\d{1,18})\b')  # more digits than are parsed many at a time
INPUTS, VALUES, STACK = b'"Input ', b'"Concrete Inputs"', b'"Call stack"'  # "Input Dims", "Input type"
NUMBER = b'"Ev Idx"'  # an argument that no two events share
MOST_KEPT = 4096  # texts of arguments that are remembered; the operators of a network have some hundred
ARROWS = np.zeros(256, bool)  # from launch to kernel, by their letter: the correlation says it too
ARROWS[[ord("s"), ord("t"), ord("f")]] = True
TAKEN = np.zeros(256, bool)
TAKEN[[ord(LASTING), ord(INSTANT)]] = True
BEHIND_NUMBER = np.zeros(256, bool)  # the letters that may follow a duration
BEHIND_NUMBER[[ord(","), ord(" "), ord("\n"), ord("}")]] = True
MARGIN = b" " * 63 + b"\n"  # around a piece, so that looking a little beyond either end is no mistake


class Beginnings(dict[bytes, int]):
    """The first fields of events: by their text, the number of the head they stand for."""

    def __init__(self, heads: Heads) -> None:
        super().__init__()
        self.heads = heads
        self.repaired: set[int] = set()  # heads whose text was no valid JSON

    def __missing__(self, text: bytes) -> int:
        if ARGUMENTS in text:  # the time stamp is one of the arguments, or behind them
            return ODD
        block = b"{" + text.strip(BLANK) + b"}"
        event = loads(block)
        broken = event is None
        event = repair(block) if broken else event
        if event is None or not _says_enough(event):
            self[text] = ODD
            return ODD
        self[text] = number = self.heads[
            event["ph"], event.get(CATEGORY), event["name"], event["pid"], event["tid"]
        ]
        if broken:
            self.repaired.add(number)
        return number


class Details(dict[bytes, Kept]):
    """Arguments of operators: by their text, what is kept of them."""

    def __init__(self, tables: Tables) -> None:
        super().__init__()
        self.tables = tables
        self.repaired: set[bytes] = set()  # texts that were no valid JSON

    def __missing__(self, text: bytes) -> Kept:
        if len(self) == MOST_KEPT:
            self.clear()
            self.repaired.clear()
        arguments, is_broken = _decoded(text)
        if is_broken:
            self.repaired.add(text)
        self[text] = kept = self.tables.kept(arguments)
        return kept


def _says_enough(event: Json) -> bool:
    """Whether the first fields of an event tell where it goes."""
    if any(isinstance(event.get(key), (list, dict)) for key in (*NEEDED, CATEGORY)):
        return False
    return all(key in event for key in NEEDED) and (event["ph"] != LASTING or CATEGORY in event)


@dataclass(frozen=True)
class Events:
    """The events in a piece of text, n of them. The arguments of each are somewhere in [at, stop)."""

    head: Ints  # (n,) number of their first fields
    begin_ns: Ints
    duration_ns: Ints
    at: Ints  # (n,) where the field of their time stamp begins
    below: Ints  # (n,) where their arguments begin, UNKNOWN if not where they should be
    end: Ints  # (n,) where their arguments end, if that is where they should
    stop: Ints  # (n,) where the next event begins

    def only(self, rows: Ints) -> Events:
        """Some of them."""
        return Events(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True)
class Look:
    """What there is in a piece of a file."""

    data: bytes
    count: int  # of events without the odd ones
    events: Events
    odd: list[bytes]  # the text of those that are left to decode


class KnownLayout:
    """Takes pieces of a file of one spelling that consist of whole events."""

    def __init__(self, tables: Tables, spelling: Spelling) -> None:
        self.tables = tables
        self.spelling = spelling
        self.heads = Beginnings(tables.heads)
        self.details = Details(tables)
        self.repaired = 0  # events that were no valid JSON

    def cut(self, text: bytes) -> int:
        """Where the last of the events ends that another one follows in `text`; 0 where none does."""
        return text.rfind(self.spelling.boundary) + 1

    def look(self, piece: bytes | memoryview) -> Look:
        """What is in `piece`, which begins and ends where an event does."""
        spelling = self.spelling
        # As if an event came before and behind it, so that all begin and end alike.
        start = MARGIN + spelling.before
        data = b"".join((start, piece, spelling.gap, MARGIN))
        text = np.frombuffer(data, np.uint8)
        opens = spelling.opens(text)
        stops = np.append(opens[1:], len(data) - len(MARGIN))
        before = data[len(start) : opens[0] if len(opens) else len(data)].strip(BLANK)
        phase = _phases(text, opens + 1 + len(spelling.behind))
        event, stamps = _first_of_each(opens, _stamps(text))
        taken = TAKEN[phase[event]]
        event, events, good = self._complete(data, event[taken], stamps[taken], opens, stops)
        odd = ~ARROWS[phase]
        odd[event[good]] = False
        spans = zip(opens[odd].tolist(), stops[odd].tolist(), strict=True)
        odd_ones = [data[i:j].strip(BLANK) for i, j in spans]
        count = len(opens) - len(odd_ones)
        events = events if good.all() else events.only(np.flatnonzero(good))
        return Look(data, count, events, [before, *odd_ones] if before else odd_ones)

    def _complete(
        self, data: bytes, event: Ints, stamps: Ints, opens: Ints, stops: Ints
    ) -> tuple[Ints, Events, Flags]:
        """Those of the events numbered `event` that say all, and whether their first fields are known."""
        begin_ns, duration_ns, below, good = _times(np.frombuffer(data, np.uint8), stamps, self.spelling)
        if not good.all():
            event, stamps, below = event[good], stamps[good], below[good]
            begin_ns, duration_ns = begin_ns[good], duration_ns[good]
        heads = self.heads
        spans = zip((opens[event] + 1).tolist(), stamps.tolist(), strict=True)
        head = np.array([heads[data[i:j]] for i, j in spans], np.int64)
        stop = stops[event]
        events = Events(head, begin_ns, duration_ns, stamps, below, stop - self.spelling.closing, stop)
        return event, events, head != ODD

    def take(self, look: Look) -> None:
        """Put the events of a piece into their tables."""
        data, events, tables = look.data, look.events, self.tables
        tables.events += look.count  # the odd ones are counted when they are decoded
        heads = tables.heads.table()
        if self.heads.repaired:
            self.repaired += int(np.isin(events.head, list(self.heads.repaired)).sum())
        goes_to = heads["table"][events.head]
        for table in (*HOST_TABLES, EventTable.CALLS, EventTable.DEVICE, EventTable.SYNCS, EventTable.MEMORY):
            rows = np.flatnonzero(goes_to == table)
            if not len(rows):
                continue
            chosen = events.only(rows)
            columns = (heads[chosen.head], chosen.begin_ns, chosen.duration_ns)
            if table is EventTable.DEVICE:
                tables.append_device(*columns, self._arguments(data, chosen))
            elif table is EventTable.SYNCS:
                tables.append_syncs(*columns, self._arguments(data, chosen))
            elif table is EventTable.MEMORY:
                tables.append_memory(chosen.begin_ns, self._arguments(data, chosen))
            elif table is EventTable.CALLS:
                tables.append_calls(*columns, _correlations(data, chosen))
            else:
                self._append_details(data, chosen, np.flatnonzero(heads["details"][chosen.head]))
                tables.append_host(table, *columns)

    def _append_details(self, data: bytes, events: Events, rows: Ints) -> None:
        """Keep what was recorded of the operators worth it."""
        details = self.details
        spans = zip(events.at[rows].tolist(), events.end[rows].tolist(), strict=True)
        texts = [_kept_text(data, i, j) for i, j in spans]
        kept = []
        for text in texts:
            kept.append(details[text])
            self.repaired += text in details.repaired
        self.tables.append_details(rows.tolist(), kept)

    def _arguments(self, data: bytes, events: Events) -> list[Json]:
        """The arguments of each event, decoded all at once where they stand where they should."""
        text = np.frombuffer(data, np.uint8)
        begin, end = events.below, events.end
        usual = (begin != UNKNOWN) & (begin < end) & (text[begin] == ord("{")) & (text[end - 1] == ord("}"))
        if usual.all():
            spans = zip(begin.tolist(), end.tolist(), strict=True)
            together = loads(b"[" + b",".join([data[i:j] for i, j in spans]) + b"]")
            if together is not None and len(together) == len(begin):
                return together  # type: ignore[no-any-return]
        spans = zip(events.at.tolist(), events.stop.tolist(), strict=True)
        single = [_argument(data[i:j]) for i, j in spans]
        self.repaired += sum(is_broken for _, is_broken in single)
        return [arguments for arguments, _ in single]


def _phases(text: digits.Bytes, at: Ints) -> digits.Bytes:
    """The letter behind `"ph": "`, with which an event begins at text[at:]; or 0."""
    quote = _value_at(text, at + len(PHASE))
    fits = spells(text, at, PHASE) & (text[quote] == ord('"'))
    letters: digits.Bytes = text[quote + 1] * fits
    return letters


def _stamps(text: digits.Bytes) -> Ints:
    """Where `"ts":` stands."""
    # Each letter in all places first: that is quicker than to look closer at the many places of one.
    fits = text[1 : 1 - len(STAMP)] == STAMP[1]
    for place in (0, 2, 3):
        fits &= text[place : place + len(fits)] == STAMP[place]
    places = np.flatnonzero(fits)
    stamps: Ints = places[text[places + len(STAMP) - 1] == STAMP[-1]]
    return stamps


def _first_of_each(opens: Ints, stamps: Ints) -> tuple[Ints, Ints]:
    """The events that have time stamps, by number, and the first of each: arguments may hold others."""
    if len(opens) == len(stamps) and (stamps > opens).all() and (stamps[:-1] < opens[1:]).all():
        return np.arange(len(opens)), stamps
    event = np.searchsorted(opens, stamps) - 1
    first = (event >= 0) & (np.diff(event, prepend=-1) != 0)
    return event[first], stamps[first]


def _value_at(text: digits.Bytes, at: Ints) -> Ints:
    """Where the value begins behind a colon, after which there may be a space."""
    begin: Ints = at + (text[at] == ord(" "))
    return begin


def _times(text: digits.Bytes, stamps: Ints, spelling: Spelling) -> tuple[Ints, Ints, Ints, Flags]:
    """Of events by the fields of their time stamps: begin and duration in nanoseconds, (n,) int64; where
    their arguments begin, or UNKNOWN; whether begin and duration are good.
    """
    begin = _value_at(text, stamps + len(STAMP))
    end = digits.ends(text, begin)
    begin_ns, good = digits.nanoseconds(text, begin, end)
    field = spelling.field_at(text, end)
    lasts = spells(text, field, DURATION)
    begin = _value_at(text, field + len(DURATION))
    behind = digits.ends(text, begin)
    duration_ns, duration_good = digits.nanoseconds(text, begin, behind)
    duration_good &= BEHIND_NUMBER[text[behind]]
    own_line = len(spelling.behind) * (text[behind] == ord("\n"))  # that the comma may have
    comma = np.where(lasts, behind + own_line, end)
    field = spelling.field_at(text, comma)
    known = (text[comma] == ord(",")) & spells(text, field, ARGUMENTS)
    good &= (text[end] == ord(",")) & np.where(lasts, duration_good, known)
    below = np.where(known, _value_at(text, field + len(ARGUMENTS)), UNKNOWN)
    return begin_ns, duration_ns * lasts, below, good


def _argument(text: bytes) -> tuple[Json, bool]:
    """The arguments in an event's text from its time stamp on, and whether it was no valid JSON."""
    event, is_broken = _object(b"{" + text.rstrip(BLANK))
    value = event.get("args")
    return (value if isinstance(value, dict) else {}), is_broken


def _object(block: bytes) -> tuple[Json, bool]:
    """An object of JSON, repaired if need be, and whether it had to be."""
    value = loads(block)
    is_broken = value is None
    value = repair(block) if is_broken else value
    return (value if isinstance(value, dict) else {}), is_broken


def _kept_text(data: bytes, at: int, end: int) -> bytes:
    """What of the arguments that end at `end` may be worth keeping, as text that repeats if they do."""
    begin, stack = data.find(INPUTS, at, end), data.find(STACK, at, end)
    if begin >= 0:
        values = data.find(VALUES, at, begin)
        begin = values if values >= 0 else begin
        begin = min(begin, stack) if stack >= 0 else begin
    elif stack >= 0:
        begin = stack
    else:
        return b""
    number = data.rfind(NUMBER, begin, end)
    is_last = number >= 0 and data.find(b'"', number + len(NUMBER), end) < 0
    return data[begin : number if is_last else end]


def _decoded(text: bytes) -> tuple[Json, bool]:
    """Arguments from `_kept_text`, where their closing brace may be left; whether they were no valid JSON."""
    return _object(b"{" + text.strip(BLANK).removesuffix(b"}").strip(BLANK) + b"}")


def _correlations(data: bytes, events: Events) -> Ints:
    """The correlation of each runtime call, (n,) int64: it is looked for from the end, where CUDA's is."""
    text = np.frombuffer(data, np.uint8)
    spans = zip(events.at.tolist(), events.stop.tolist(), strict=True)
    field = np.array([data.rfind(CORRELATION, i, j) for i, j in spans], np.int64)
    begin = _value_at(text, field + len(CORRELATION))
    value, good = digits.whole(text, begin, digits.ends(text, begin))
    for row in np.flatnonzero(~good & (field >= 0)).tolist():
        entry = LARGE.match(data, int(field[row]))
        value[row] = int(entry[1]) if entry else UNKNOWN
    value[field < 0] = UNKNOWN
    return value
