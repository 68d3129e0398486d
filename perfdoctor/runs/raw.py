"""The raw files of a run directory: fixed-width rows, JSON lines, folded stacks.

They are append-only and readable at any moment; what is missing or cut short in them becomes a sentence in
`problems`. Nothing in here runs or unpickles anything that it reads.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perfdoctor.model.note import Note
from perfdoctor.runs import json_text, regular_file
from perfdoctor.runs.directory import Json
from perfdoctor.wire.batch_rows import BATCHES
from perfdoctor.wire.collective_rows import COLLECTIVES, NOW, NOW_BYTE, OP_NAMES, OTHER_OP
from perfdoctor.wire.folded_stacks import END, ENDS
from perfdoctor.wire.rows import GROW_BYTES, HEADER_BYTES, SCHEMA, TEXT_BYTES, VERSION, version_of
from perfdoctor.wire.step_rows import STEPS

MAX_STACK_LINES = 2_000_000  # a folded-stack file past this is cut, and said so
COUNT = re.compile(r"[1-9][0-9]{0,14}")  # of samples; str.isdigit() takes digits that int() does not
KIND = re.compile(r"[<|]?[iuf][1248]")  # of a column; numpy would evaluate other strings
LAYOUTS = {"steps": STEPS, "collectives": COLLECTIVES, "loader": BATCHES, "workers": BATCHES}  # by file name
LARGEST = 2**55  # of a value of a row: a year in nanoseconds; hundreds of larger ones would overflow a sum
MAPPED = (STEPS.kind, COLLECTIVES.kind)  # kinds of rows files that are allocated ahead, block by block

Rows = npt.NDArray[np.void]
Stack = tuple[tuple[str, ...], int]


def read_rows(path: Path, problems: list[Note]) -> Rows | None:
    """The valid rows of a fixed-width file, or None where it is missing or not one."""
    try:
        with regular_file.opened(path) as file:
            header = _described(file.read(HEADER_BYTES))
            declared = LAYOUTS.get(path.name.partition(".")[0])
            layout = layout_of(header, declared.required if declared else ())
            if layout is None or is_newer(header):
                problems.append(Note("file-left-out", {"file": path.name, "why": _why_unreadable(header)}))
                return None
            rows: Rows = np.fromfile(file, dtype=layout)  # a row cut short at the end is not read
            rest = (file.seek(0, 2) - HEADER_BYTES) % GROW_BYTES
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(Note("unread-file", {"file": path.name, "why": error.strerror}))
        return None
    written = np.flatnonzero(rows["end_ns"])
    if rest and header.get("kind") in MAPPED and (not len(written) or written[-1] == len(rows) - 1):
        problems.append(Note("cut-short", {"file": path.name}))
    is_gapless = len(written) > 0 and written[-1] == len(written) - 1
    # What follows the last one was allocated ahead; no copy of a hundred megabytes.
    return _whole_rows(rows[: len(written)] if is_gapless else rows[written], path, problems)


def _whole_rows(rows: Rows, path: Path, problems: list[Note]) -> Rows:
    """The rows without those that no writer has written; they are counted."""
    broken = (rows["end_ns"] < rows["begin_ns"]) | (rows["begin_ns"] < 0)
    for name in set(rows.dtype.names or ()) - {"begin_ns", "end_ns"}:
        if rows.dtype[name].kind == "i":
            broken |= (rows[name] > LARGEST) | (rows[name] < -LARGEST)
    if not broken.any():
        return rows
    problems.append(Note("broken-rows", {"file": path.name, "count": int(broken.sum())}))
    return rows[~broken]


def read_header(path: Path) -> Json | None:
    """What the header of a rows file says, or None where there is none."""
    try:
        with regular_file.opened(path) as file:
            return _described(file.read(HEADER_BYTES))
    except OSError:
        return None


def _described(header: bytes) -> Json:
    try:
        described = json_text.loads(header[:TEXT_BYTES].split(b"\n")[0].rstrip())
    except ValueError:
        return {}
    return described if isinstance(described, dict) else {}


def is_newer(header: Json) -> bool:
    """Whether a later version of perfdoctor wrote the file, in a way that this one does not know."""
    return (version_of(header.get("schema")) or VERSION) > VERSION


def _why_unreadable(header: Json) -> str:
    if not is_newer(header):
        return "has no readable header"
    return f"was written by a newer perfdoctor ({header['schema']}; this one reads {SCHEMA}{VERSION})"


def layout_of(header: Json, required: Collection[tuple[str, str]] = ()) -> np.dtype[np.void] | None:
    """The columns that a header names, or None where it names none, or not all that it must have."""
    try:
        columns = [(str(name), str(kind)) for name, kind in header["columns"]]
        if not all(KIND.fullmatch(kind) for _, kind in columns) or not set(required) <= set(columns):
            return None
        layout = np.dtype(columns)
    except (ValueError, KeyError, TypeError):
        return None
    fits = layout.itemsize == header.get("row_bytes") and {"begin_ns", "end_ns"} <= set(layout.names or ())
    return layout if fits else None


def read_now(path: Path) -> Json | None:
    """The collective that the writer of a rows file was in when it last wrote, or None outside of any."""
    try:
        with regular_file.opened(path) as file:
            slot = file.read(HEADER_BYTES)[NOW_BYTE : NOW_BYTE + NOW.size]
    except OSError:
        return None
    if len(slot) < NOW.size:
        return None
    begin_ns, step, nbytes, sequence, group, op, inside = NOW.unpack(slot)
    if inside != 1:
        return None
    told = {"begin_ns": begin_ns, "step": step, "bytes": nbytes, "sequence": sequence, "group": group}
    return told | {"op": OP_NAMES.get(op, OP_NAMES[OTHER_OP])}


def read_lines(path: Path, problems: list[Note]) -> Iterator[Json]:
    """The JSON objects of a file, a line each; broken lines are counted and left out."""
    try:
        data = regular_file.content(path)
    except FileNotFoundError:
        return
    except OSError as error:
        problems.append(Note("unread-file", {"file": path.name, "why": error.strerror}))
        return
    broken = 0
    for line in data.split(b"\n"):
        if not line.strip(b" \r\0"):
            continue
        try:
            entry = json_text.loads(line)
        except ValueError:
            broken += 1
            continue
        if isinstance(entry, dict) and isinstance(entry.get("event", ""), str):
            yield entry
        else:
            broken += 1
    if broken:
        problems.append(Note("broken-lines", {"file": path.name, "count": broken}))


def read_stacks(path: Path, problems: list[Note]) -> tuple[str | None, tuple[Stack, ...]]:
    """Folded stacks added up by stack, and the sampler that took them.

    A part without its end is left out: which of its stacks are missing depends on what they are.
    """
    source, broken, has_ends = None, 0, False
    counts: Counter[tuple[str, ...]] = Counter()
    part: Counter[tuple[str, ...]] = Counter()
    try:
        with io.TextIOWrapper(regular_file.opened(path), "utf-8", "backslashreplace") as file:
            for number, line in enumerate(file):
                if number >= MAX_STACK_LINES:
                    problems.append(Note("too-long", {"file": path.name, "lines": MAX_STACK_LINES}))
                    has_ends = False  # what was read of the part is kept
                    break
                if line == END:
                    counts.update(part)
                    part.clear()
                    continue
                if line.startswith("#"):
                    found = re.search(r"source=(\S+)", line)
                    source = found[1] if found else source
                    has_ends = has_ends or ENDS in line.split()
                    continue
                frames, _, count = line.rstrip("\n").rpartition(" ")
                if frames and COUNT.fullmatch(count):
                    part[tuple(frames.split(";"))] += int(count)
                elif line.strip():
                    broken += 1
    except FileNotFoundError:
        return None, ()
    except OSError as error:
        problems.append(Note("unread-file", {"file": path.name, "why": error.strerror}))
    if broken:
        problems.append(Note("broken-lines", {"file": path.name, "count": broken}))
    if part and has_ends:
        problems.append(Note("cut-short", {"file": path.name}))
    elif part:  # written by a version that wrote no ends
        counts.update(part)
    return source, tuple(counts.items())


def read_stack_rate(path: Path) -> float | None:
    """How many stack samples a second the sampler said it takes, or None where it did not."""
    try:
        with regular_file.opened(path) as file:
            found = re.match(rb"#.*\brate_hz=(\d{1,6}(?:\.\d{1,9})?)(?:\s|$)", file.readline(TEXT_BYTES))
    except OSError:
        return None
    return float(found[1]) or None if found else None
