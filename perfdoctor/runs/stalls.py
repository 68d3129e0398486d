"""Ranks that stood still: where each was when no step had ended for much longer than usual.

`samplers.stalls` writes `stalled.jsonl` while the command runs; here it is read back, and put into words.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from perfdoctor.model.measured import Location
from perfdoctor.model.ranks import rank_list

FILE = "stalled.jsonl"
STALLED, RESUMED = "stalled", "resumed"  # events of the file


@dataclass(frozen=True)
class Inside:
    """The collective that a rank is in."""

    name: str  # "all_reduce"
    seconds: float | None = None  # since when
    step: int | None = None  # of the rank that is in it
    sequence: int | None = None  # which one of its kind in its group


@dataclass(frozen=True)
class Stall:
    """One rank of a job in which no step ended."""

    rank: int
    pid: int
    still_s: float  # since a rank of the job last did anything that shows
    at: Location | None = None  # the innermost line of the user's code
    functions: tuple[str, ...] = ()  # of the training thread, from the outermost in
    inside: Inside | None = None
    ended: bool = False  # its process was gone
    cwd: str = ""  # of the run

    @property
    def words(self) -> str:
        """Where it is, without its rank: `all_reduce, step 120, for 61 s`, `train.py:20 (evaluate)`."""
        if self.ended:
            return "has ended"
        if self.inside is not None:
            step = "" if self.inside.step is None else f", step {self.inside.step:,}"
            time = "" if self.inside.seconds is None else f", for {self.inside.seconds:.0f} s"
            return f"{self.inside.name}{step}{time}"
        if self.at is not None:
            return _place(self.at, self.cwd) + (f" ({self.at.function})" if self.at.function else "")
        return self.functions[-1] if self.functions else "nothing that could be inspected"


def read(path: Path) -> Mapping[int, Stall]:
    """The ranks that stood still when the run at `path` was last looked at, by rank.

    Nothing where no stall was seen, or steps went on after it. Broken lines are left out.
    """
    found: dict[int, Stall] = {}
    try:
        lines = (path / FILE).read_bytes().splitlines()
    except OSError:
        return found
    for line in lines:
        try:
            entry = orjson.loads(line)
            if entry["event"] == RESUMED:
                found.clear()
            elif entry["event"] == STALLED:
                stall = _stall(entry)
                found[stall.rank] = stall
        except (ValueError, KeyError, TypeError):
            continue
    return found


def entry(stall: Stall) -> dict[str, Any]:
    """The line of the file that says it."""
    return {
        "event": STALLED,
        "rank": stall.rank,
        "pid": stall.pid,
        "still_s": round(stall.still_s, 1),
        "at": stall.at and {"file": stall.at.file, "line": stall.at.line, "function": stall.at.function},
        "functions": stall.functions,
        "inside": stall.inside and vars(stall.inside),
        "ended": stall.ended,
        "cwd": stall.cwd,
    }


def _stall(entry: Mapping[str, Any]) -> Stall:
    at, inside = entry.get("at"), entry.get("inside")
    return Stall(
        int(entry["rank"]),
        int(entry["pid"]),
        float(entry["still_s"]),
        Location(str(at["file"]), int(at["line"]), at.get("function")) if at else None,
        tuple(map(str, entry.get("functions") or ())),
        Inside(**inside) if inside else None,
        bool(entry.get("ended")),
        str(entry.get("cwd", "")),
    )


def sentence(stalls: Iterable[Stall], steps: int, lone: bool = False) -> str:
    """What to say of it in one line; `steps` that the job has taken, `lone` where it is one process.

    `no step for 62 s: rank 1 is in train.py:20, ranks 0, 2–3 wait in all_reduce`
    """
    ordered = sorted(stalls, key=lambda stall: (stall.inside is not None, stall.rank))
    still_s = max((stall.still_s for stall in ordered), default=0.0)
    clauses: dict[tuple[str, str], list[int]] = {}
    for stall in _told_apart(ordered):
        clauses.setdefault(_clause(stall), []).append(stall.rank)
    said = [
        f"{'it' if lone else rank_list(ranks)} {several if len(ranks) > 1 else one}"
        for (one, several), ranks in clauses.items()
    ]
    return f"{'no step for' if steps else 'no step yet after'} {still_s:.0f} s: {', '.join(said)}"


def _told_apart(stalls: Sequence[Stall]) -> Sequence[Stall]:
    """Where all wait, what they wait in is told by the step too, for it is not the same; else by its name."""
    places = {(stall.inside.name, stall.inside.step) for stall in stalls if stall.inside}
    if len(places) > 1 and all(stall.inside for stall in stalls):
        return stalls
    return [
        replace(stall, inside=replace(stall.inside, step=None)) if stall.inside else stall for stall in stalls
    ]


def _clause(stall: Stall) -> tuple[str, str]:
    """What is said of one such rank, and of several."""
    if stall.ended:
        return "has ended", "have ended"
    if stall.inside is not None:
        step = "" if stall.inside.step is None else f" of step {stall.inside.step:,}"
        return f"waits in {stall.inside.name}{step}", f"wait in {stall.inside.name}{step}"
    if stall.at is None and not stall.functions:
        return "could not be inspected", "could not be inspected"
    where = _place(stall.at, stall.cwd) if stall.at is not None else stall.functions[-1]
    return f"is in {where}", f"are in {where}"


def _place(at: Location, cwd: str) -> str:
    inside = cwd and at.file.startswith(cwd.rstrip(os.sep) + os.sep)
    return f"{os.path.relpath(at.file, cwd) if inside else at.file}:{at.line}"
