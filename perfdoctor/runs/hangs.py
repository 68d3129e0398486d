"""Ranks that stood still: where each was when no step had ended for much longer than usual.

`samplers.hang_detector` writes `stalled.jsonl` while the command runs; here it is read and put into words.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.model.ranks import rank_list
from perfdoctor.runs import json_text
from perfdoctor.runs.checked import checked

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
class HungRank:
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


def read(path: Path) -> Mapping[int, HungRank]:
    """The ranks that stood still when the run at `path` was last looked at, by rank.

    Nothing where no hang was seen, or steps went on after it. Broken lines are left out.
    """
    hung_ranks: dict[int, HungRank] = {}
    for entry in json_text.objects(path / FILE):
        try:
            if entry["event"] == RESUMED:
                hung_ranks.clear()
            elif entry["event"] == STALLED:
                hung = _hung_rank(entry)
                hung_ranks[hung.rank] = hung
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return hung_ranks


def entry(hung: HungRank) -> dict[str, Any]:
    """The line of the file that says it."""
    return {
        "event": STALLED,
        "rank": hung.rank,
        "pid": hung.pid,
        "still_s": round(hung.still_s, 1),
        "at": hung.at and {"file": hung.at.file, "line": hung.at.line, "function": hung.at.function},
        "functions": hung.functions,
        "inside": hung.inside and vars(hung.inside),
        "ended": hung.ended,
        "cwd": hung.cwd,
    }


def _hung_rank(entry: Mapping[str, Any]) -> HungRank:
    at, inside = entry.get("at"), entry.get("inside")
    values = {
        "at": checked(Location, at) if at else None,
        "inside": checked(Inside, inside) if inside else None,
        "functions": tuple(entry.get("functions") or ()),
    }
    return checked(HungRank, {**entry, **values})


def sentence(hung_ranks: Iterable[HungRank], steps: int, lone: bool = False) -> str:
    """What to say of it in one line; `steps` that the job has taken, `lone` where it is one process.

    `no step for 62 s: rank 1 is in train.py:20, ranks 0, 2–3 wait in all_reduce`
    """
    ordered = sorted(hung_ranks, key=lambda hung: (hung.inside is not None, hung.rank))
    still_s = max((hung.still_s for hung in ordered), default=0.0)
    clauses: dict[tuple[str, str], list[int]] = {}
    for hung in _told_apart(ordered):
        clauses.setdefault(_clause(hung), []).append(hung.rank)
    said = [
        f"{'it' if lone else rank_list(ranks)} {several if len(ranks) > 1 else one}"
        for (one, several), ranks in clauses.items()
    ]
    return f"{'no step for' if steps else 'no step yet after'} {still_s:.0f} s: {', '.join(said)}"


def _told_apart(ranks: Sequence[HungRank]) -> Sequence[HungRank]:
    """Where all wait, what they wait in is told by the step too, for it is not the same; else by its name."""
    places = {(hung.inside.name, hung.inside.step) for hung in ranks if hung.inside}
    if len(places) > 1 and all(hung.inside for hung in ranks):
        return ranks
    return [replace(hung, inside=replace(hung.inside, step=None)) if hung.inside else hung for hung in ranks]


def _clause(hung: HungRank) -> tuple[str, str]:
    """What is said of one such rank, and of several."""
    if hung.ended:
        return "has ended", "have ended"
    if hung.inside is not None:
        step = "" if hung.inside.step is None else f" of step {hung.inside.step:,}"
        return f"waits in {hung.inside.name}{step}", f"wait in {hung.inside.name}{step}"
    if hung.at is None and not hung.functions:
        return "could not be inspected", "could not be inspected"
    where = _place(hung.at, hung.cwd) if hung.at is not None else hung.functions[-1]
    return f"is in {where}", f"are in {where}"


def _place(at: Location, cwd: str) -> str:
    inside = cwd and at.file.startswith(cwd.rstrip(os.sep) + os.sep)
    return f"{os.path.relpath(at.file, cwd) if inside else at.file}:{at.line}"
