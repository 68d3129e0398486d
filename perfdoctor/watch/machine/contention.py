"""How this machine shares its cores between training and busy workers: measured once, kept, noted with a run.

The step model needs it to say what more or fewer workers bring on cores that training needs as well. It is
measured with the script's own interpreter and torch, after the script has ended (`contention_program.py`).
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import orjson
import psutil

from perfdoctor.runs.directory import SHARING, Json, make_private, read_json, user_folder, write_json
from perfdoctor.runs.types import RunRecords
from perfdoctor.watch.command import unprobed_environment
from perfdoctor.watch.samplers import usable_cores

PROGRAM = Path(__file__).with_name("contention_program.py")
SECONDS = 0.3  # for each of some twenty measurements
AT_MOST_S = 60.0  # a machine too busy to finish by then tells nothing
QUIET_S = 0.3  # how long the cores are watched before
QUIET = 0.15  # of the usable cores busy: beside more, others would be measured as well
LONG_ENOUGH_S = 5.0  # a shorter run was a trial; nobody waits for its last percent
MOST_WORKERS = 16  # that are started at once


def note(records: RunRecords, tell: Callable[[str], None]) -> Json | None:
    """The factors for a run whose training used a DataLoader on the CPU, left as `sharing.json` beside it.

    Measures where this machine has not been measured yet and is quiet; `tell` is called before. None, and
    nothing is left, where that is not possible or not worth it.
    """
    boot = _boot(records)
    threads, python = _threads(records, boot), boot.get("executable")
    if not isinstance(threads, int) or not isinstance(python, str) or not _wanted(records):
        return None
    cores = usable_cores()[0]
    kept = _kept(threads, cores, str(boot.get("torch")))
    factors = None if kept is None else read_json(kept)
    if factors is None and _quiet(cores):
        tell("measuring once how training and loader workers share this machine's cores (a few seconds)")
        factors = measure(python, threads, cores)
        if factors is not None:
            factors["cores"] = cores
            if kept is not None:
                with suppress(OSError):
                    make_private(kept.parent)
                    write_json(kept, factors)
    if factors is not None:
        with suppress(OSError):
            write_json(records.path / SHARING, factors)
    return factors


def measure(python: str, threads: int, cores: float) -> Json | None:
    """The factors of `watch/machine/contention_program.py`, or None where it does not end well."""
    counts = sorted({1, max(1, min(MOST_WORKERS, int(cores)))})
    request = orjson.dumps({"threads": threads, "workers": counts, "seconds": SECONDS}).decode()
    try:
        done = subprocess.run(
            [python, str(PROGRAM), request],
            capture_output=True,
            timeout=AT_MOST_S,
            env=unprobed_environment(),
            check=True,
        )
        factors = orjson.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return factors if isinstance(factors, dict) else None


def _wanted(records: RunRecords) -> bool:
    """Whether the run was long, ended by itself, trained on the CPU and used a DataLoader."""
    begin, end = records.run.get("begin_ns"), records.run.get("end_ns")
    if not isinstance(begin, int) or not isinstance(end, int) or (end - begin) / 1e9 < LONG_ENOUGH_S:
        return False
    ranks = records.ranks.values()
    on_cpu = not any(rank.of("device") for rank in ranks)
    return records.run.get("outcome") == "ok" and on_cpu and any(rank.of("loader") for rank in ranks)


def _boot(records: RunRecords) -> Json:
    """The boot record of the first process that trained."""
    trained = {event.get("pid") for rank in records.ranks.values() for event in rank.of("cost")}
    return next((boot for boot in records.boots if boot.get("pid") in trained), {})


def _threads(records: RunRecords, boot: Json) -> object:
    """torch's threads when training ended."""
    changed = [event for rank in records.ranks.values() for event in rank.of("threads")]
    return changed[-1].get("intra_op") if changed else boot.get("threads")


def _kept(threads: int, cores: float, torch: str) -> Path | None:
    """Where this machine's factors are kept; None where the user has no folder."""
    try:
        cache = user_folder("XDG_CACHE_HOME", ".cache")
    except OSError:
        return None
    host = "".join(letter if letter.isalnum() else "-" for letter in platform.node() or "here")
    return cache / "perfdoctor" / f"sharing-{host}-{cores:g}cores-{threads}threads-torch{torch}.json"


def _quiet(cores: float) -> bool:
    busy = psutil.cpu_percent(interval=QUIET_S) / 100 * (psutil.cpu_count() or 1)
    return busy <= QUIET * cores
