"""Ranks that ended before their training did: which of them first, and how, in words.

A launcher such as torchrun exits with 1 whatever its ranks exited with, and ends those that are left. What a
rank ended with is in `agent.jsonl`: told by torchrun's own agent, or seen from outside.
"""

from __future__ import annotations

import math
import os
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from perfdoctor.model.launchers import launcher_of
from perfdoctor.model.ranks import rank_list
from perfdoctor.runs import regular_file
from perfdoctor.runs.directory import Json
from perfdoctor.runs.json_text import whole
from perfdoctor.runs.raw import read_lines
from perfdoctor.runs.records import Folder
from perfdoctor.wire.names import events_file

FAILED = "rank_failed"
FILE = "ended.jsonl"  # when a rank ended of which is not known how
LAST_BYTES = 64 * 1024  # of an events file, where its end is told
BY_LAUNCHER = (-signal.SIGTERM, -signal.SIGKILL)  # what ends the ranks that are left
FROM_OUTSIDE = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)  # a user, or a scheduler, ended all of them


def words(failure: Json) -> str:
    """How it ended: `exit code 7`, `killed by signal 9`."""
    code = failure.get("exitcode")
    if not isinstance(code, int):
        return "ended before its training did"
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def distinct(failures: Iterable[Json]) -> Iterator[Json]:
    """One entry for each process: its end may be told twice, and the first time counts."""
    told: set[tuple[object, object]] = set()
    for failure in failures:
        rank = failure.get("rank")
        process = failure.get("host"), failure.get("pid", f"rank {rank}")
        if failure.get("event") == FAILED and isinstance(rank, int) and process not in told:
            told.add(process)
            yield failure


def sentences(failures: Iterable[Json], launcher: str, restarted: bool = False) -> Iterator[str]:
    """What to say of ranks that failed, the first one first: a sentence for each start of the job."""
    attempts: dict[int, list[Json]] = {}
    for failure in distinct(failures):
        attempts.setdefault(failure.get("attempt") or 0, []).append(failure)
    for number, ended in sorted(attempts.items()):
        yield (f"attempt {number}: " if restarted else "") + _sentence(ended, launcher)


def _sentence(ended: Sequence[Json], launcher: str) -> str:
    first, *others = ended
    if all(failure.get("t_ns") is None and failure.get("exitcode") is None for failure in ended):
        whose = "their" if others else "its"
        return f"{_all(ended)} ended before {whose} training did"
    codes = {failure.get("exitcode") for failure in ended}
    if codes <= {-number for number in FROM_OUTSIDE}:
        numbers = " and ".join(str(number) for number in sorted(-code for code in codes if code))
        were = "were" if others else "was"
        return f"{_all(ended)} {were} ended by signal{'s' if len(codes) > 1 else ''} {numbers}"
    who = rank_list([first["rank"]])
    when = " first" if others else ""
    code = first.get("exitcode")
    if not isinstance(code, int):
        told = f"{who} ended{when}, before its training did"
    else:
        told = f"{who} failed{when}, {'' if code < 0 else 'with '}{words(first)}"
    return f"{told}; {_of_others(others, launcher)}" if others else told


def _all(ended: Sequence[Json]) -> str:
    return rank_list(failure["rank"] for failure in ended)


def _of_others(others: Sequence[Json], launcher: str) -> str:
    followed: dict[str, list[int]] = {}
    for failure in others:
        by_launcher = failure.get("exitcode") in BY_LAUNCHER
        how = f"ended by {launcher}" if by_launcher else words(failure)
        followed.setdefault(how, []).append(failure["rank"])
    if list(followed) == [f"ended by {launcher}"]:
        return f"the others were ended by {launcher}"
    told = (f"{rank_list(ranks)} ({how})" for how, ranks in followed.items())
    return f"{', '.join(told)} followed"


def launcher(command: Sequence[str]) -> str:
    """What to call the one who started the ranks, from the command of the run."""
    found = launcher_of(command)
    return found[0].name if found is not None else "the launcher"


def lost(folder: Folder) -> list[Json]:
    """Ranks whose record stops without an end, where none is known to have failed; the first one first.

    Beside ranks that were ended by a signal, as a launcher does once one has failed, only those of which it
    was seen when they ended.
    """
    if not all(failure.get("exitcode") in BY_LAUNCHER for failure in folder.failures):
        return []
    known = {failure.get("pid") for failure in folder.failures}
    times = {whole(line, "pid"): whole(line, "t_ns") for line in read_lines(folder.path / FILE, [])}
    found: list[Json] = []
    for rank, process in folder.processes.items():
        told = process.pid in known or (known and times.get(process.pid) is None)
        if not told and not _has_end(folder, process.tag):
            job: Json = {name: process.job[name] for name in ("attempt", "host") if name in process.job}
            end: Json = {"event": FAILED, "t_ns": times.get(process.pid), "rank": rank, "pid": process.pid}
            found.append({**end, "exitcode": None, **job})
    return sorted(found, key=lambda end: end["t_ns"] or math.inf)


def _has_end(folder: Folder, tag: str) -> bool:
    with suppress(OSError), regular_file.opened(folder.path / events_file(tag)) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - LAST_BYTES))
        return re.search(rb'"event": ?"end"', file.read()) is not None
    return False
