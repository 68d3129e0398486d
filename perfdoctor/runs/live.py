"""A run that goes on, read from its files alone: what came since the last look, and the last seconds.

Nothing is written, asked or signalled: the run may be another user's, or on another machine that shares the
folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from perfdoctor.errors import NoSuchRun, NotARun
from perfdoctor.model.dataclass import dataclass
from perfdoctor.runs import raw
from perfdoctor.runs.directory import HOST_SAMPLES, LIST, RUN, Json, option, read_json
from perfdoctor.runs.records import whole
from perfdoctor.runs.tails import CountedSteps, LinesTail, RowsTail, StepCurve
from perfdoctor.runs.types import RankRecords, RunRecords
from perfdoctor.runs.unended import SILENT_S, is_gone, lives
from perfdoctor.wire import names
from perfdoctor.wire.step_rows import STEPS

RECENT_S = 10.0  # what "now" means; a rate of less flickers
RECENT_ROWS = 16  # that are looked at, where steps take seconds
SAMPLES = 2  # of the host, which tell a rate


@dataclass(frozen=True)
class LiveRecords:
    """What a run has come to by now; its records are those of the last seconds."""

    recent: RunRecords
    steps: Mapping[int, int] = field(default_factory=dict)  # of each rank, since the beginning
    steps_per_s: tuple[float, ...] = ()  # of the lowest rank, over the whole run
    now_epoch_s: float = 0.0
    silent_s: float = 0.0  # since anything was written
    is_gone: bool = False  # the command and who watched it: known on their own host only
    outlasts_its_watch: bool = False  # nothing was written for long, and the command is there


class LiveRun:
    """Follows the run in one folder. Raises NoSuchRun or NotARun where there is none."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise NoSuchRun(f"no run at {path}", LIST + option(path))
        self.path = path
        self._processes: dict[str, _LiveProcess] = {}
        self._boots = LinesTail(path / names.BOOT)
        self._booted: list[Json] = []
        self._host = LinesTail(path / HOST_SAMPLES)
        self._samples: tuple[Json, ...] = ()
        self._gpus: dict[int, LinesTail] = {}
        self._devices: dict[int, tuple[Json, ...]] = {}
        self._run: Json = {}
        self._watcher_pid: int | None = None
        self._read_run()

    def look(self) -> LiveRecords:
        """What there is now."""
        with suppress(NotARun, OSError):  # the folder may go away: what was seen stays true
            self._read_run()
            self._read_on()
        shown = self._shown()
        ranks = {rank: self._recent(rank, process) for rank, process in shown.items()}
        silent_s = self._silent_s()
        return LiveRecords(
            RunRecords(self.path, self._run, ranks, tuple(self._booted), self._samples, dict(self._devices)),
            {rank: process.counted.steps for rank, process in shown.items()},
            next(iter(shown.values())).curve.steps_per_s if shown else (),
            time.time(),
            silent_s,
            is_gone(self._run, self._watcher_pid),
            silent_s > SILENT_S and lives(self._run),
        )

    def _read_run(self) -> None:
        run = read_json(self.path / RUN)
        if run is None or not str(run.get("schema", "")).startswith("perfdoctor.run/"):
            raise NotARun(f"{self.path} is not a perfdoctor run", LIST + option(self.path))
        self._run = run
        if self._watcher_pid is None:
            self._watcher_pid = whole(read_json(self.path / names.CONFIG), "watcher_pid")

    def _read_on(self) -> None:
        self._booted += self._boots.new()
        self._samples = (*self._samples, *self._host.new())[-SAMPLES:]
        for entry in sorted(os.listdir(self.path)):
            kind, _, rest = entry.partition(".")
            if kind == "steps" and rest.endswith(".bin") and entry not in self._processes:
                process = _LiveProcess.of(self.path / entry)
                if process is not None:
                    self._processes[entry] = process
            elif kind.startswith("gpu") and kind[3:].isdecimal() and rest == "jsonl":
                self._gpus.setdefault(int(kind[3:]), LinesTail(self.path / entry))
        for process in self._processes.values():
            process.read_on()
        for index, tail in self._gpus.items():
            self._devices[index] = tuple(tail.new()[-1:]) or self._devices.get(index, ())

    def _shown(self) -> dict[int, _LiveProcess]:
        """The newest process of each rank that has recorded anything, else its newest."""
        by_rank: dict[int, _LiveProcess] = {}
        for process in sorted(self._processes.values(), key=lambda each: each.order):
            by_rank[process.rank] = process
        return dict(sorted(by_rank.items()))

    def _recent(self, rank: int, process: _LiveProcess) -> RankRecords:
        boot = next((boot for boot in self._booted if whole(boot, "pid") == process.pid), {})
        told = boot.get("job")
        job = told if isinstance(told, dict) else {}
        node = str(job.get("host") or self._host_name())
        return RankRecords(
            rank, process.counted.recent, None, (), pid=process.pid, node=node, job=job, boot=boot
        )

    def _host_name(self) -> str:
        told = self._run.get("host")
        return str(told.get("name") or "") if isinstance(told, dict) else ""

    def _silent_s(self) -> float:
        """Seconds since any of the files that grow was written."""
        return max(0.0, time.time() - max(self._written(), default=time.time()))

    def _written(self) -> Iterator[float]:
        for name in (RUN, HOST_SAMPLES, *self._processes):
            with suppress(OSError):
                yield (self.path / name).stat().st_mtime


class _LiveProcess:
    """A process that trains."""

    def __init__(self, rank: int, pid: int | None, opened_epoch_s: float, tail: RowsTail) -> None:
        self.rank = rank
        self.pid = pid
        self.counted = CountedSteps(RECENT_S, RECENT_ROWS)
        self.curve = StepCurve()
        self._opened_epoch_s = opened_epoch_s
        self._tail = tail

    @classmethod
    def of(cls, path: Path) -> _LiveProcess | None:
        """The process that writes a rows file, or None while it has written no header."""
        header = raw.read_header(path) or {}
        tail, rank = RowsTail.of(path, STEPS.required), whole(header, "rank")
        if tail is None or rank is None:
            return None
        opened_s = header.get("opened_epoch_s")
        began_s = float(opened_s) if isinstance(opened_s, (int, float)) else 0.0
        return cls(rank, whole(header, "pid"), began_s, tail)

    @property
    def order(self) -> tuple[bool, float]:
        """By which the last process of a rank is found: whether it has recorded anything, then its start."""
        return self.counted.rows > 0, self._opened_epoch_s

    def read_on(self) -> None:
        """Take in what was added."""
        with suppress(OSError):  # a file may go away
            for rows in self._tail.new():
                self.counted.add(rows)
                ended = rows[self.counted.counts(rows)]
                self.curve.add(ended["end_ns"].astype("i8"), ended["marks"])
