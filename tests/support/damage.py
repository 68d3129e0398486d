"""Damages files by structure and by bytes, the same way for the same random numbers."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

from perfdoctor.wire.rows import HEADER_BYTES

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 0.5, -0.5, 1e-320, 1e308, -1e308, float("nan"), float("inf"), 2**31, 2**63 - 1,
    2**63, 2**64, -(2**63), 10**30, 10**400, "", "x", "\u00b2", "3", "-1", "nan", "\0", "\x1b[31m", "a\nb", "é" * 300,
    "{x}", "../..", [], {}, [[]], [None], [1, "x"], {"": None}, {"a": 1}, [0] * 999,
)  # fmt: skip
DEPTHS = (100, 300, 900, 1100, 20_000)
HOLE = "\ue000"  # stands for what json cannot write
EXTREMES = (0, 1, -1, 2**63 - 1, -(2**63), 2**62, 10**18, 0x7FF8000000000000, 0x7FF0000000000000, 255)
ENCODINGS = ("utf-16", "utf-8-sig", "latin-1", "utf-32", "utf-7")

Damage = Callable[[Random, bytes], bytes]


def damaged(random: Random, name: str, data: bytes) -> bytes:
    """The content of the file `name`, damaged in one to three places: by its structure, or anywhere."""
    by_structure = _of_kind(name)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        data = (by_structure if random.random() < 0.7 else by_bytes)(random, data)
    return data


def _of_kind(name: str) -> Damage:
    if name.endswith(".gz"):
        return lambda random, data: gzip.compress(of_json(random, _unpacked(data)), 1)
    if name.endswith(".jsonl"):
        return of_lines
    if name.endswith(".json"):
        return of_json
    return of_rows if name.endswith(".bin") else of_stacks


def _unpacked(data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, ValueError, zlib.error):  # damaged before
        return data


# ---------------------------------------------------------------- bytes


def by_bytes(random: Random, data: bytes) -> bytes:
    """Bits flipped, an end cut off, a part repeated elsewhere, something inserted, another encoding, or nothing left."""
    if not data:
        return random.randbytes(random.randrange(64))
    at, other = random.randrange(len(data)), random.randrange(len(data))
    part = data[other : other + random.choice((1, 8, 100, 5000))]
    kind = random.randrange(8)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + part + data[at:]
    if kind == 2:
        return data[:at] + part + data[at + len(part) :]
    if kind == 3:
        return (
            data[:at]
            + random.choice((b"\0" * 64, b"\xff\xfe", b"\n", b"}", b"[" * 2000, b"9" * 5000))
            + data[at:]
        )
    if kind == 4:
        return data[:at] + data[at + len(part) :]
    if kind == 5 and random.random() < 0.2:
        return random.choice((b"", b"\n", b"\0" * 5000, b"null", b"[]", b"{}", data + data))
    if kind == 6 and random.random() < 0.3:
        return data.decode("utf-8", "replace").encode(random.choice(ENCODINGS), "replace")
    flipped = bytearray(data)
    for _ in range(random.choice((1, 1, 4, 40))):
        flipped[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(flipped)


# ---------------------------------------------------------------- JSON


def of_json(random: Random, data: bytes) -> bytes:
    """A value of a document dropped, repeated, replaced by another kind, moved, or nested deeply."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return by_bytes(random, data)
    return _text(random, _changed(random, document)).encode("utf-8", "surrogatepass")


def _changed(random: Random, document: Any) -> Any:
    places = _places(document)
    if not places or random.random() < 0.02:
        return random.choice(ODD)
    holder, key = random.choice(places)
    kind = random.randrange(10)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        other, its = random.choice(places)
        holder[key] = other[its] if its in other or isinstance(other, list) else None
        return json.loads(json.dumps(document)) if _is_tree(document) else random.choice(ODD)
    elif kind == 2 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif kind == 3 and isinstance(holder, list):
        random.shuffle(holder)
    elif kind == 4 and isinstance(holder[key], (int, float)):
        times = random.choice((-1, 0, 1000, 10**12, 1e-9))
        # An odd whole number may be beyond what a float holds.
        holder[key] = holder[key] * (times if abs(holder[key]) < sys.float_info.max else -1)
    elif kind == 5 and isinstance(holder, dict):
        holder[random.choice(("", "id", "event", f"{key}s"))] = holder.pop(key)
    elif kind == 6 and isinstance(holder[key], (list, dict)):
        holder[key].clear()
    elif kind == 7:
        holder[key] = HOLE
    else:
        holder[key] = random.choice(ODD)
    return document


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Each value in a document, by what holds it and its key there."""
    places, holders = [], [document]
    while holders:
        holder = holders.pop()
        keys = holder if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        places += [(holder, key) for key in keys]
        holders += [holder[key] for key in keys if isinstance(holder[key], (dict, list))]
    return places


def _is_tree(document: Any) -> bool:
    """Whether a document does not hold itself."""
    try:
        json.dumps(document)
    except (ValueError, RecursionError):
        return False
    return True


def _text(random: Random, document: Any) -> str:
    depth = random.choice(DEPTHS)
    nested = random.choice(
        ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "9" * 5000, "1e999")
    )
    return json.dumps(document, ensure_ascii=False).replace(f'"{HOLE}"', nested)


def of_lines(random: Random, data: bytes) -> bytes:
    """A line of JSON lines damaged by its structure, dropped, repeated, moved or cut; or all in another order."""
    lines = data.split(b"\n")
    at, kind = random.randrange(len(lines)), random.randrange(12)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(random.randrange(len(lines)), lines[at])
    elif kind == 2:
        random.shuffle(lines)
    elif kind == 3:
        lines[at] = lines[at][: random.randrange(len(lines[at]) + 1)]
    elif lines[at]:
        lines[at] = of_json(random, lines[at])
    return b"\n".join(lines)


# ---------------------------------------------------------------- rows and stacks


def of_rows(random: Random, data: bytes) -> bytes:
    """The header of a rows file damaged as JSON, or its rows: values at their limits, repeated, moved, cut."""
    header, rows = data[:HEADER_BYTES], data[HEADER_BYTES:]
    text = header.split(b"\n")[0].rstrip(b" \0")
    if random.random() < 0.3:
        text = of_json(random, text)[: HEADER_BYTES - 64]
        return text + b"\n" + header[len(text) + 1 :].rjust(HEADER_BYTES - len(text) - 1, b" ") + rows
    width = _width(text)
    count = len(rows.rstrip(b"\0")) // width + 1
    table = bytearray(rows)
    for _ in range(random.choice((1, 3, 30))):
        row, other = random.randrange(count) * width, random.randrange(count) * width
        kind = random.randrange(6)
        if kind == 0:
            table[row : row + width] = table[other : other + width]
        elif kind == 1:
            table[row : row + width] = random.randbytes(width)
        elif kind == 2 and random.random() < 0.1:
            return header + bytes(table[: row + random.randrange(width)])
        else:
            place = row + random.randrange(max(1, width // 8)) * 8
            table[place : place + 8] = (random.choice(EXTREMES) % 2**64).to_bytes(8, "little")
    return header + bytes(table)


def _width(text: bytes) -> int:
    try:
        width = json.loads(text)["row_bytes"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 8
    return width if isinstance(width, int) and 0 < width < 1000 else 8


def of_stacks(random: Random, data: bytes) -> bytes:
    """A line of folded stacks dropped, repeated, with another count or other frames."""
    lines = data.split(b"\n")
    at, kind = random.randrange(len(lines)), random.randrange(6)
    frames, _, count = lines[at].rpartition(b" ")
    counts = (b"", b"-1", b"0", b"1.5", "\u00b2".encode(), b"9" * 5000, b"9" * 15, b"nan", "\u0663".encode())
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines[at] = b" ".join((frames, random.choice(counts)))
    elif kind == 2:
        lines[at] = (
            b";".join([*frames.split(b";"), *[b"f (x.py:1)"] * random.choice((1, 2000))]) + b" " + count
        )
    elif kind == 3:
        lines[at] = random.choice(
            (b";;; 3", b" 3", b"main 3", b"main;f (x.py:" + b"9" * 5000 + b") 3", b"# source=", b"\xff 1")
        )
    elif kind == 4:
        random.shuffle(lines)
    else:
        parts = frames.split(b";")
        parts[random.randrange(len(parts))] = random.choice(
            (b"", b"f", b"f (:)", b"f (x.py:-1)", "\u00b2 (\u00b2:\u00b2)".encode(), b"(")
        )
        lines[at] = b";".join(parts) + b" " + count
    return b"\n".join(lines)
