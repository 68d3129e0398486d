"""Keeps what was predicted and then measured on this machine: a file of JSON lines for each host.

It lies in the user's data folder, beside no run: it tells of the machine, not of a script. A line is added by
writing all lines anew and renaming, under a lock: readers see the old file or the new one, a full disk leaves
the old one, and no line is lost between several processes.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from perfdoctor.model import json_bytes
from perfdoctor.model.concluded import Bottleneck, Gain
from perfdoctor.model.history import TriedChange
from perfdoctor.model.trial import Outcome
from perfdoctor.runs import directory

VARIABLE = "PERFDOCTOR_HISTORY"  # another folder, or OFF
OFF = "off"
VERSION = 1  # of a line
MOST_LINES = 1000  # kept, the newest: some 400 bytes each, years of trials
LETTERS = 100  # kept of a script's name, and of each tweak as typed
LOCK_S = 2.0  # for other processes to add theirs: each takes milliseconds
LAST_S = 2.0**33  # of a time that a calendar can show: the year 2242


def file() -> Path | None:
    """The history of this machine, whether there is one yet or not; None where none is to be kept.

    Raises OSError where the user has no folder.
    """
    told = os.environ.get(VARIABLE)
    if told is not None and told.lower() == OFF:
        return None
    host = "".join(letter if letter.isalnum() else "-" for letter in platform.node() or "here")
    if told:
        return Path(told) / f"{host}.jsonl"
    data = directory.user_folder("XDG_DATA_HOME", ".local", "share")
    return data / "perfdoctor" / "history" / f"{host}.jsonl"


def add(changes: Sequence[TriedChange]) -> None:
    """Add a line for each. Raises OSError where that cannot be, and leaves the history as it was."""
    kept = file()
    if kept is None or not changes:
        return
    directory.make_private(kept.parent)
    with _locked(kept):
        lines = [*_lines(kept), *(json_bytes.dumps(_line(change)) for change in changes)]
        directory.write_bytes(kept, b"".join(line + b"\n" for line in lines[-MOST_LINES:]))


def read() -> tuple[list[TriedChange], int]:
    """What was tried here, the oldest first, and how many lines tell nothing. Raises OSError."""
    kept = file()
    lines = [] if kept is None else _lines(kept)
    changes = [change for line in lines if (change := _change(line)) is not None]
    return changes, len(lines) - len(changes)


def clear() -> None:
    """Remove the history of this machine. Raises OSError."""
    kept = file()
    if kept is not None and kept.exists():
        with _locked(kept):  # whose empty file stays: another process may be waiting for it
            kept.unlink(missing_ok=True)


@contextmanager
def _locked(kept: Path) -> Iterator[None]:
    """Nobody else writes meanwhile. Raises OSError where another process does not let go."""
    descriptor = os.open(kept.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        end_s = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end_s:
                    raise TimeoutError(errno.ETIMEDOUT, "another process holds its lock") from None
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


def _lines(kept: Path) -> list[bytes]:
    """The lines of the file, without empty ones; none where there is no file."""
    try:
        return [line for line in kept.read_bytes().splitlines() if line.strip()]
    except FileNotFoundError:
        return []


# ---------------------------------------------------------------- a line


def _line(change: TriedChange) -> dict[str, Any]:
    cut = {"script": change.script[:LETTERS], "tweaks": [words[:LETTERS] for words in change.tweaks]}
    return {"version": VERSION, **asdict(change), **cut}


def _change(line: bytes) -> TriedChange | None:
    """What a line tells; None where it is damaged, or of another version."""
    try:
        told = orjson.loads(line)
        if told["version"] != VERSION or not 0 <= told["epoch_s"] <= LAST_S:
            return None
        return TriedChange(
            float(told["epoch_s"]),
            _word(told["script"]),
            _word(told["script_id"]),
            tuple(map(_word, told["tweaks"])),
            tuple(map(Bottleneck, told["acts_on"])),
            _word(told["device"]),
            _gain(told["modelled"]),
            _gain(told["predicted"]),
            _gain(told["measured"]),
            Outcome(told["outcome"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _gain(told: Mapping[str, Any]) -> Gain:
    """A gain. Raises ValueError where it is none: ratios are taken of its ends."""
    gain = Gain(*(float(told[name]) for name in ("low", "likely", "high")))
    if not 0 < gain.low <= gain.likely <= gain.high < math.inf:
        raise ValueError(told)
    return gain
