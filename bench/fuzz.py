"""Damaged files for every reader: only an error that is meant for users, or a page, may come of them.

    python bench/fuzz.py [--inputs 2000] [--minutes M] [--seed 1] [--jobs 2] [--every 20] [--most 1]
                         [--reader NAME] [--only NUMBER] [--keep FOLDER]

Each input is one file of a real run, trace, trial or measurement, damaged by its structure or by bytes
(tests/support/damage.py), and read by its reader. Of those that are accepted, what was read is compared with
what is read of the undamaged file. Where a kind of value comes out that was not met before at its place, the
input is judged, drawn and written as JSON as well, and so is one in `--every` of the others: `--every 1` does
that with each. Judging takes fifty times as long as reading: `--most 20` does it with one in twenty at most;
what was put off by that stays new.

An input is told by seed, reader and number: --only judges one, whatever it reads as, and shows where it
fails; --keep writes down those that do. Readers take turns, so that Ctrl-C, or the end of the minutes, finds
all of them tried alike. Ends with 1 where anything but a PerfdoctorError came out, or one input took more
than 20 s of CPU time or 4 GB.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random

from fuzz_parts import Kind, Undamaged
from fuzz_readers import ROOT, Reader, readers
from fuzz_siblings import Siblings, remember_queues
from rich.console import Console
from rich.table import Table

from perfdoctor import own_failures
from perfdoctor.errors import PerfdoctorError
from perfdoctor.render.notes import all_worded
from tests.support.damage import damaged

LIMIT_S, WAIT_S = 20, 400  # of CPU time; by the clock, for what waits: others may keep the machine busy
LIMIT_BYTES = 4 << 30
MEMORY = Path("/dev/shm")  # a file system in it: opening files elsewhere takes as long as reading them
TURN = 20  # inputs of a reader, of weight 1, before the next one's turn
TELL_S = 60.0  # between two lines on what has been done

OUTCOMES = ("refused", "left out", "read", "unexpected")
DEPTHS = ("differ", "judged")  # of what was accepted: what was read is another, and it was judged

FORK = multiprocessing.get_context("fork")  # all is imported once
_stopped = FORK.Event()
_tries: dict[str, Tries] = {}  # of this process, by reader


class TooSlow(Exception):
    """An input took longer than is allowed."""


@dataclass(frozen=True)
class Turn:
    """Inputs of one reader, one after the other."""

    reader: str
    numbers: range


@dataclass(frozen=True)
class Failure:
    """An input of which something unexpected came."""

    reader: str
    number: int
    trace: str

    @property
    def place(self) -> str:
        """Where it was raised, of our own lines, and what."""
        lines = [line.strip() for line in self.trace.strip().splitlines()]
        own = [line for line in lines if line.startswith("File") and f"{ROOT}/perfdoctor" in line]
        return f"{own[-1] if own else '?'}  {lines[-1][:100]}".replace(f"{ROOT}/", "")


@dataclass
class Tried:
    """What came of the inputs of a turn."""

    reader: str
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)


class Tries:
    """One reader with its whole files, and what it has met so far."""

    def __init__(self, reader: Reader, words: argparse.Namespace) -> None:
        self.reader, self.words = reader, words
        self._whole = {name: (reader.folder / name).read_bytes() for name in (*reader.names, *reader.written)}
        self._siblings = Siblings()
        self._met: set[Kind] = set()
        self._accepted_ones = self._judged = 0

    @cached_property
    def _read_whole(self) -> tuple[Undamaged, frozenset[str]]:
        """What is read of whole files, and all that is noted of them."""
        with self._siblings.kept(None):
            content = self.reader.read(self.reader.folder)
        remarks = (*content.remarks, *self.reader.judge(self.reader.folder, content.facts))
        self._restore(*self.reader.written)
        undamaged = Undamaged(content.facts)
        gc.freeze()  # what whole files hold stays
        return undamaged, frozenset(all_worded(remarks))

    def turn(self, numbers: Iterable[int], end_s: float) -> Tried:
        """Try these inputs, until the time is up."""
        tried, (undamaged, _) = Tried(self.reader.name), self._read_whole
        for number in numbers:
            if time.monotonic() > end_s or _stopped.is_set():
                break
            trace = self._attempt(number, tried.counts)
            if trace:
                tried.failures.append(Failure(self.reader.name, number, trace))
        if not undamaged.is_intact:
            raise AssertionError("something changed what was read of whole files, which later inputs share")
        return tried

    def _attempt(self, number: int, counts: Counter[str]) -> str:
        """Count what comes of one input, and return where it failed."""
        random, name, data = self.input(number)
        (self.reader.folder / name).write_bytes(data)
        signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
        signal.setitimer(signal.ITIMER_REAL, WAIT_S)
        outcome, trace = "refused", ""
        try:
            with contextlib.suppress(PerfdoctorError):
                outcome = self._accepted(random, self.reader.folder / name, counts)
        except Exception:  # noqa: BLE001  # which one is what is asked here
            outcome, trace = "unexpected", traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._restore(name)
        counts[outcome] += 1
        return trace

    def _accepted(self, random: Random, file: Path, counts: Counter[str]) -> str:
        """Read the damaged file, and go as deep as is worth it."""
        with self._siblings.kept(file):
            content = self.reader.read(self.reader.folder)
        remarks, (undamaged, told) = content.remarks, self._read_whole
        difference = undamaged.difference(content.facts)
        counts["differ"] += difference is not None
        is_new = not (difference or set()) <= self._met
        is_drawn = random.randrange(self.words.every) == 0
        self._accepted_ones += 1
        may_be_judged = self._judged * self.words.most <= self._accepted_ones
        if self.words.only is not None or (may_be_judged and (is_new or is_drawn)):
            self._met |= difference or set()
            self._judged += 1
            counts["judged"] += 1
            try:
                remarks = (*remarks, *self.reader.judge(self.reader.folder, content.facts))
            finally:
                self._restore(*self.reader.written)
        return "left out" if set(all_worded(remarks)) - told else "read"

    def input(self, number: int) -> tuple[Random, str, bytes]:
        """The random numbers of an input after those that damage took, its file, and what is in it."""
        random = Random(f"{self.words.seed}/{self.reader.name}/{number}")
        name = random.choice(self.reader.names)
        return random, name, damaged(random, name, self._whole[name])

    def _restore(self, *names: str) -> None:
        for name in names:
            (self.reader.folder / name).write_bytes(self._whole[name])


# ---------------------------------------------------------------- processes


def _prepare(folder: Path, words: argparse.Namespace) -> None:
    """Make the files, and this process and those forked from it ones that try inputs."""
    os.environ["XDG_STATE_HOME"] = str(folder)
    os.environ[own_failures.STRICT] = "1"  # what a report contains of a failure is unexpected, too
    os.chdir(folder)
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, _too_slow)
    warnings.simplefilter("error", RuntimeWarning)  # numpy's would stand on the user's terminal
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, resource.RLIM_INFINITY))
    faulthandler.enable()
    remember_queues()
    _tries.update(
        {one.name: Tries(one, words) for one in readers(folder) if one.name.startswith(words.reader)}
    )


def _too_slow(number: int, frame: object) -> None:
    raise TooSlow(f"more than {LIMIT_S} s of CPU time, or {WAIT_S} s in all")


def _stop(number: int, frame: object) -> None:
    _stopped.set()


def _try(turn: Turn, end_s: float) -> Tried:
    return _tries[turn.reader].turn(turn.numbers, end_s)


def _turns(words: argparse.Namespace) -> Iterator[Turn]:
    """What is to be tried, in turns."""
    weights = {name: tries.reader.weight for name, tries in _tries.items()}
    if words.only is not None:
        yield from (Turn(name, range(words.only, words.only + 1)) for name in weights)
        return
    each = words.inputs / max(1, sum(weights.values()))
    last = {name: max(1, round(each * weight)) for name, weight in weights.items()}
    for begin in range(0, max(1, round(each)), TURN):
        for name, weight in weights.items():
            if numbers := range(begin * weight, min((begin + TURN) * weight, last[name])):
                yield Turn(name, numbers)


def _tried(turns: Sequence[Turn], words: argparse.Namespace) -> Iterator[Tried]:
    """What comes of every turn, in order."""
    end_s = time.monotonic() + 60 * words.minutes
    if words.jobs == 1 or words.only is not None:
        yield from (_try(turn, end_s) for turn in turns)
        return
    with contextlib.ExitStack() as stack:
        # A folder has one process: files in it are damaged in turn, and what was met decides what is judged.
        folders = list(dict.fromkeys(tries.reader.folder for tries in _tries.values()))
        pools = {}
        for number in range(words.jobs):
            pool = stack.enter_context(ProcessPoolExecutor(1, FORK))
            pools.update(dict.fromkeys(folders[number :: words.jobs], pool))
        tried = [pools[_tries[turn.reader].reader.folder].submit(_try, turn, end_s) for turn in turns]
        for future in tried:
            yield future.result()


# ---------------------------------------------------------------- what is told


class Told:
    """Counts what came of all inputs, and prints where the first of each kind failed."""

    def __init__(self, words: argparse.Namespace) -> None:
        self._words = words
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in _tries}
        self.places: Counter[str] = Counter()
        self._told_s = time.monotonic()

    @property
    def total(self) -> Counter[str]:
        """Of all readers."""
        return sum(self.counts.values(), Counter())

    def add(self, tried: Tried) -> None:
        """What came of a turn."""
        self.counts[tried.reader] += tried.counts
        for failure in tried.failures:
            self.places[failure.place] += 1
            whole = self._words.only is not None
            if self.places[failure.place] == 1 or whole:
                print(f"--- {failure.reader} {failure.number}")
                print(failure.trace if whole else _short(failure.trace), flush=True)
            if self._words.keep is not None:
                self._keep(failure)
        if time.monotonic() > self._told_s + TELL_S:
            self._told_s = time.monotonic()
            total = self.total
            print(
                f"{_inputs(total):,} inputs, {total['unexpected']:,} unexpected", file=sys.stderr, flush=True
            )

    def _keep(self, failure: Failure) -> None:
        """Write down the file of one input."""
        self._words.keep.mkdir(parents=True, exist_ok=True)
        _, name, data = _tries[failure.reader].input(failure.number)
        (self._words.keep / f"{failure.reader}-{self._words.seed}-{failure.number}-{name}").write_bytes(data)

    def print(self) -> None:
        """The table, and how often it failed where."""
        table = Table("reader", "inputs", *OUTCOMES, *DEPTHS)
        for name, counts in self.counts.items():
            table.add_row(name, *_cells(counts))
        table.add_section()
        table.add_row("all", *_cells(self.total))
        Console(width=100).print(table)
        for place, count in self.places.most_common():
            print(f"{count:6} {place}")


def _inputs(counts: Counter[str]) -> int:
    return sum(counts[name] for name in OUTCOMES)


def _cells(counts: Counter[str]) -> list[str]:
    return [f"{number:,}" for number in (_inputs(counts), *(counts[name] for name in (*OUTCOMES, *DEPTHS)))]


def _short(trace: str) -> str:
    return "\n".join(trace.rstrip().splitlines()[-7:])[:1500]


def main() -> int:
    """Damage, read, count and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=2000, help="of all readers together")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end after so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--every", type=int, default=20, help="judge one in so many of those that read as known"
    )
    parser.add_argument("--most", type=int, default=1, help="judge one in so many at most")
    parser.add_argument("--reader", default="", help="this one only, or all whose names begin so")
    parser.add_argument("--only", type=int, help="this input only, with its traceback")
    parser.add_argument("--keep", type=Path, help="write down what came out as unexpected")
    words = parser.parse_args()
    if words.keep is not None:
        words.keep = words.keep.absolute()
    for number in (signal.SIGINT, signal.SIGTERM):  # what was counted counts
        signal.signal(number, _stop)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        _prepare(Path(name), words)
        told = Told(words)
        for tried in _tried(list(_turns(words)), words):
            told.add(tried)
        os.chdir(ROOT)
    told.print()
    return 1 if told.total["unexpected"] else 0


if __name__ == "__main__":
    sys.exit(main())
