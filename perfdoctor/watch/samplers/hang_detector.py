"""Notices that no step ends any more, looks once at where each rank is, and says it in one line.

A pause is told from a hang by the run's own pace: by how long its steps take, and its longest pause so far.
What is delivered by a loader or told in an events file shows that a rank is at work, with or without steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Marker
from perfdoctor.runs import hangs
from perfdoctor.runs.directory import append_line, working_folder
from perfdoctor.runs.hangs import HungRank
from perfdoctor.runs.tails import RowsTail
from perfdoctor.watch.samplers import rank_position
from perfdoctor.watch.samplers.processes import ProcessTree, RunProcess
from perfdoctor.watch.samplers.pyspy import SampledStack
from perfdoctor.wire import names

LONGEST_TICK_S = 5.0  # more between two looks: this process was stopped, and so was the command
BUSY_CORES = 0.5  # of a rank at work; one that waits for another without spinning uses next to none
WITHIN_S = 70.0  # a sampler within writes at least once a minute

Look = Callable[[Sequence[int]], Mapping[int, Sequence[SampledStack]]]  # by process id


@dataclass(frozen=True)
class HangBounds:
    """How long without a step is too long."""

    floor_s: float = 30.0  # checkpoints are written and samples drawn in less
    steps: float = 20.0  # usual steps
    pauses: float = 2.0  # times the longest pause so far
    patience_s: float = 300.0  # before the first few steps, and for ranks at work: compiling takes minutes
    settled_rows: int = 3
    others_s: float = 5.0  # for other watches of the same job to notice it too, a tick or two later


BOUNDS = HangBounds()


class _WatchedRank:
    """One training process, and what shows that it is at work."""

    def __init__(self, run: Path, tag: str, pid: int) -> None:
        self.run, self.tag, self.pid = run, tag, pid
        self.rank = int(tag.removeprefix("rank").split(".")[0])
        self.rows = 0
        self.ended = False  # its training has
        self._since_ns = self._last_ns = 0
        self._tails: dict[str, RowsTail | None] = {"steps": None, "loader": None}
        self._sizes: tuple[int, ...] = ()

    @property
    def usual_s(self) -> float:
        """A row's mean time, the first one left out."""
        return (self._last_ns - self._since_ns) / 1e9 / max(1, self.rows - 1)

    def moved(self) -> bool:
        """Whether anything of it has changed since the last time."""
        files = (names.rows_file("workers", self.tag), names.events_file(self.tag))
        before, self._sizes = self._sizes, tuple(_size(self.run / name) for name in files)
        return any([self._new_rows("steps"), self._new_rows("loader"), self._sizes != before])

    def _new_rows(self, kind: str) -> bool:
        tail = self._tails[kind]
        if tail is None:
            tail = self._tails[kind] = RowsTail.of(self.run / names.rows_file(kind, self.tag))
        moved = False
        with suppress(OSError):
            for rows in tail.new() if tail is not None else ():
                moved = True
                if kind == "steps":
                    self._since_ns = self._since_ns or int(rows["end_ns"][0])
                    self._last_ns = int(rows["end_ns"][-1])
                    self.ended = int(rows["marker"][-1]) == Marker.END
                    self.rows += len(rows)
        return moved


class HangDetector:
    """Follows the ranks of one run; `look` takes their stacks, `tell` says a line."""

    def __init__(
        self,
        run: Path,
        tree: ProcessTree,
        look: Look,
        tell: Callable[[str], None],
        bounds: HangBounds | None = None,
        others: Callable[[], Iterable[HungRank]] | None = None,
    ) -> None:
        self._run, self._tree, self._look, self._tell = run, tree, look, tell
        self._bounds = bounds or BOUNDS
        self._others = others  # what other watches of the same job saw; None: this one sees all of it
        self._ranks: dict[str, _WatchedRank] = {}
        self._last_s: float | None = None
        self._longest_s = 0.0  # pause so far
        self._begin_anew()

    def _begin_anew(self) -> None:
        """As after a step: nothing is known of a pause."""
        self._still_s = 0.0
        self._cpu: tuple[float, float] | None = None  # (when, CPU seconds) within this pause
        self._seen: dict[int, HungRank] = {}
        self._within: dict[int, int] = {}  # ranks that only their own samples show -> bytes of those
        self._say_s: float | None = None  # when to say what was seen

    def tick(self, now_s: float) -> None:
        """Look whether anything moves, and at the ranks where nothing does."""
        members = {member.pid: member for member in self._tree.look(now_s)}
        self._find(self._tree.ranks(now_s))
        living = [rank for rank in self._ranks.values() if rank.pid in members]
        settled = max((rank.rows for rank in living), default=0) >= self._bounds.settled_rows
        moving = [rank for rank in living if rank.moved() and not rank.ended]
        passed_s = min(LONGEST_TICK_S, now_s - (now_s if self._last_s is None else self._last_s))
        self._last_s = now_s
        if moving:
            self._go_on(settled)
        if moving or all(rank.ended for rank in living):
            return
        self._still_s += passed_s
        limit_s = self._limit_s(living, settled)
        if self._cpu is None and self._still_s > limit_s / 2:
            self._cpu = now_s, _cpu_s(members.values())
        if not self._seen and self._still_s > limit_s:
            self._notice(members, now_s)
        elif self._within:
            self._look_within(members.values(), now_s)
        if self._say_s is not None and now_s >= self._say_s:
            self._say()

    def _find(self, tags: Mapping[str, int]) -> None:
        """Follow the processes with these tags, and no others."""
        self._ranks = {tag: rank for tag, rank in self._ranks.items() if tags.get(tag) == rank.pid}
        for tag, pid in tags.items():
            if tag not in self._ranks:
                self._ranks[tag] = _WatchedRank(self._run, tag, pid)

    def _limit_s(self, living: Sequence[_WatchedRank], settled: bool) -> float:
        bounds = self._bounds
        if not settled:
            return bounds.patience_s if self._tree.is_job() else float("inf")
        usual_s = max(rank.usual_s for rank in living)
        return max(bounds.floor_s, bounds.steps * usual_s, bounds.pauses * self._longest_s)

    def _go_on(self, settled: bool) -> None:
        """Something moves: whatever stood still does so no more."""
        if self._seen:
            line = {"event": hangs.RESUMED, "t_ns": time.perf_counter_ns()}
            append_line(self._run / hangs.FILE, line)
        if settled:
            self._longest_s = max(self._longest_s, self._still_s)
        self._begin_anew()

    # ------------------------------------------------------------ looking

    def _notice(self, members: Mapping[int, RunProcess], now_s: float) -> None:
        """No step for too long: look at every rank, once."""
        # Of several processes of one rank, one for each attempt, the living one is looked at.
        ordered = sorted(self._ranks.values(), key=lambda rank: (rank.rank, rank.pid in members))
        latest = {rank.rank: rank for rank in ordered}
        stacks = self._look([rank.pid for rank in latest.values() if rank.pid in members])
        for rank in latest.values():
            ended = rank.pid not in members
            hung = HungRank(rank.rank, rank.pid, self._still_s, ended=ended, cwd=working_folder())
            self._keep(rank, hung if ended else rank_position.placed(hung, stacks.get(rank.pid, ())))
        wait_s = self._bounds.others_s if self._others else 0.0
        if self._within:
            wait_s = max(wait_s, WITHIN_S)
        self._say_s = now_s + max(wait_s, self._patience_s(members.values(), now_s))

    def _keep(self, rank: _WatchedRank, hung: HungRank) -> None:
        """Write down where a rank is; what cannot be seen from outside, its own samples may show."""
        if not hung.ended:
            collectives = self._run / names.rows_file("collectives", rank.tag)
            hung = replace(hung, inside=rank_position.slot(collectives) or hung.inside)
        self._seen[rank.rank] = hung
        line = hangs.entry(hung) | {"t_ns": time.perf_counter_ns()}
        append_line(self._run / hangs.FILE, line)
        samples = self._run / names.stacks_file(rank.tag)
        if not hung.functions and not hung.ended and rank_position.is_from_within(samples):
            self._within[rank.rank] = _size(samples)

    def _look_within(self, members: Iterable[RunProcess], now_s: float) -> None:
        """Where nobody may look from outside, the process samples itself: its newest samples."""
        for rank in self._ranks.values():
            begin = self._within.get(rank.rank)
            samples = self._run / names.stacks_file(rank.tag)
            if begin is None or _size(samples) == begin:
                continue
            del self._within[rank.rank]
            stack = rank_position.commonest(samples, begin, rank.pid)
            if stack is not None:
                self._keep(rank, rank_position.placed(self._seen[rank.rank], [stack]))
        if not self._within and not self._others:
            self._say_s = now_s + self._patience_s(members, now_s)

    def _patience_s(self, members: Iterable[RunProcess], now_s: float) -> float:
        """How long ranks that were just looked at are still left alone."""
        return max(0.0, self._bounds.patience_s - self._still_s) if self._is_at_work(members, now_s) else 0.0

    def _is_at_work(self, members: Iterable[RunProcess], now_s: float) -> bool:
        """Whether all compute, in the same place: something long, such as compiling, rather than a hang."""
        places = {(hung.at, hung.inside, hung.ended) for hung in self._seen.values()}
        if len(places) > 1 or any(hung.inside or hung.ended for hung in self._seen.values()):
            return False
        if self._cpu is None or now_s <= self._cpu[0]:
            return False
        cores = (_cpu_s(members) - self._cpu[1]) / (now_s - self._cpu[0])
        return cores >= BUSY_CORES * len(self._seen)

    def _say(self) -> None:
        self._say_s = None
        hung_by_rank = {rank: replace(hung, still_s=self._still_s) for rank, hung in self._seen.items()}
        for hung in self._others() if self._others else ():
            hung_by_rank.setdefault(hung.rank, hung)
        rows = max(rank.rows for rank in self._ranks.values())
        self._tell(hangs.sentence(hung_by_rank.values(), rows, lone=not self._tree.is_job()))


def _cpu_s(members: Iterable[RunProcess]) -> float:
    """CPU seconds of all of them so far."""
    total = 0.0
    for member in members:
        with suppress(psutil.Error):
            times = member.process.cpu_times()
            total += float(times.user + times.system)
    return total


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
