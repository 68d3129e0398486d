"""Which processes belong to a run, and what each is: a training process, a loader worker, or another."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import psutil

from perfdoctor.model.dataclass import dataclass
from perfdoctor.runs.directory import ANY_RANK
from perfdoctor.watch.descendants import lives, with_descendants
from perfdoctor.wire import names
from perfdoctor.wire.rows import HEADER_BYTES

SETTLED_S = 3.0  # a fresh fork still shows its parent's command line: younger processes are looked at again
CLOCK_S = 1.0  # by which two moments that processes began at may be off: the system tells its own in seconds
FORK_SERVER = "multiprocessing.forkserver"
HELPERS = ("multiprocessing.resource_tracker", FORK_SERVER)
SPAWNED = "--multiprocessing-fork"
HOST = os.uname().nodename
# Not in every kernel; without it every look scans the whole of /proc.
LISTS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


@dataclass(frozen=True)
class RunProcess:
    """One process of the run."""

    process: psutil.Process
    role: str  # "main", "worker" or "other"
    tag: str | None  # names the files of the training process it is or belongs to: "rank0", "rank0.1234"
    declared: bool = False  # a loader worker that the probe has seen, not one that only looks like it

    @property
    def pid(self) -> int:
        """Its process id."""
        return int(self.process.pid)

    @property
    def rank(self) -> int | None:
        """The rank in its tag."""
        return None if self.tag is None else int(self.tag.removeprefix("rank").split(".")[0])


class ProcessTree:
    """The processes below the watched command, with their roles as the run directory tells them."""

    def __init__(self, run: Path, pid: int) -> None:
        self._run = run
        self._root = pid
        self._processes: dict[int, psutil.Process] = {}
        self._commands: dict[int, list[str]] = {}  # of those that have settled
        self._declared = _DeclaredWorkers(run)
        self._looked: tuple[float, list[RunProcess]] | None = None
        self._ended: set[int] = set()  # the command or training processes that are gone
        self._boots = _Boots(run)
        self._inner: dict[int, int] = {}  # number in a container of its own -> number here
        self.mains: dict[int, str] = {}  # pid of a training process -> its tag

    def look(self, now_s: float) -> list[RunProcess]:
        """Every living process of the run: training processes first, then workers, oldest first.

        Asked again with the same `now_s`, it gives the same answer without looking.
        """
        if self._looked is None or self._looked[0] != now_s:
            self._looked = (now_s, self._look())
        return self._looked[1]

    def ranks(self, now_s: float) -> dict[str, int]:
        """The process of each tag: training processes, ended ones too, and ranks that are about to train.

        Until it trains, a rank is known by the number that its launcher gave it.
        """
        members = {member.pid for member in self.look(now_s)}
        tags = {tag: pid for pid, tag in self.mains.items()}
        counted = {tag.split(".")[0] for tag in tags}
        early = self._boots.local.items()
        return {tag: pid for pid, tag in early if tag not in counted and pid in members} | tags

    def is_job(self) -> bool:
        """Whether these are ranks of a job of several."""
        return self._boots.world > 1 or len({tag.split(".")[0] for tag in self.mains.values()}) > 1

    def _look(self) -> list[RunProcess]:
        self._find_mains()
        declared = self._declared.pids()
        members: dict[int, RunProcess] = {}
        for root in (*self.mains, self._root):
            if root in self._processes and not lives(self._processes[root]):
                self._ended.add(root)  # its number belongs to a stranger once its parent has asked for it
            if root not in self._ended:
                self._walk(root, None, "other", declared, members)
        for ended in self._processes.keys() - members.keys():
            del self._processes[ended]
            self._commands.pop(ended, None)
        self._declared.keep(members.keys())
        order = {"main": 0, "worker": 1, "other": 2}
        return sorted(members.values(), key=lambda member: (order[member.role], member.process.create_time()))

    def _find_mains(self) -> None:
        self._boots.read()
        for path in self._run.glob(names.rows_file("steps", "rank[0-9]*")):
            header = read_header(path)
            tag = path.name.removeprefix("steps.").removesuffix(".bin")
            if header is None or self._boots.is_foreign(tag, int(header["pid"])):
                continue
            pid = self._number_here(int(header["pid"]))
            if pid is not None:
                self.mains[pid] = tag

    def _number_here(self, told: int) -> int | None:
        """The number of the run's process that has this one where it runs; None where it is out of sight.

        In a container that numbers processes by itself the training may be number 1, which here is older
        than the run.
        """
        if told in self._inner:
            return self._inner[told]
        if told in self._processes or self._root in self._ended or not self._is_older(told):
            return told
        inside = (process.pid for process in with_descendants(self._root) if inner_number(process) == told)
        pid = next(inside, None)
        if pid is not None:
            self._inner[told] = pid
        return pid

    def _is_older(self, pid: int) -> bool:
        """Whether a process was there before the command; False where one of them has ended."""
        try:
            # both are asked now: the moment is told by a clock that may have been set since
            began_s = psutil.Process(self._root).create_time()
            return bool(psutil.Process(pid).create_time() < began_s - CLOCK_S)
        except psutil.Error:
            return False

    def _walk(
        self, pid: int, tag: str | None, above: str, declared: set[int], members: dict[int, RunProcess]
    ) -> None:
        """Add `pid` and everything below it; `above` is the role of its parent."""
        if pid in members:
            return
        process = self._process(pid)
        if process is None:
            return
        role = "other"
        if pid in self.mains:
            role, tag = "main", self.mains[pid]
        elif tag is not None and (pid in declared or self._looks_like_worker(process, above)):
            role = "worker"
        members[pid] = RunProcess(process, role, tag, pid in declared)
        # A fork server's children are workers, whose command line is the server's.
        below = FORK_SERVER if above == "main" and self._helps(process, FORK_SERVER) else role
        for child in _children(process):
            self._walk(child, tag, below, declared, members)

    def _process(self, pid: int) -> psutil.Process | None:
        process = self._processes.get(pid)
        try:
            if process is None:
                process = psutil.Process(pid)
                process.create_time()  # remembered by psutil; later it may be too late to ask
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
        except psutil.Error:
            return None
        self._processes[pid] = process
        return process

    def _command(self, process: psutil.Process) -> list[str]:
        words = self._commands.get(process.pid)
        if words is not None:
            return words
        try:
            command = list(process.cmdline())
            if time.time() - process.create_time() > SETTLED_S:
                self._commands[process.pid] = command
        except psutil.Error:
            return []
        return command

    def _looks_like_worker(self, process: psutil.Process, above: str) -> bool:
        """Forked from the training process without an exec, or started by multiprocessing."""
        if above != "main":
            return above == FORK_SERVER
        command = self._command(process)
        if self._helps(process, *HELPERS):
            return False
        if SPAWNED in command:
            return True
        mains = [self._processes[pid] for pid in self.mains if pid in self._processes]
        return bool(command) and any(command == self._command(main) for main in mains)

    def _helps(self, process: psutil.Process, *helpers: str) -> bool:
        return any(helper in word for word in self._command(process) for helper in helpers)


def inner_number(process: psutil.Process) -> int | None:
    """The number by which a process knows itself, which is another one in a container; None if not told."""
    try:
        with open(f"/proc/{process.pid}/status", "rb") as file:
            line = next(line for line in file if line.startswith(b"NSpid:"))
        return int(line.split()[-1])
    except (OSError, StopIteration, ValueError):
        return None


def read_header(path: Path) -> dict[str, Any] | None:
    """The header of a rows file, or None while there is none that can be read."""
    try:
        with open(path, "rb") as file:
            line = file.read(HEADER_BYTES).split(b"\n")[0]
        header = orjson.loads(line.rstrip(b"\x01 "))
        int(header["pid"]), int(header["rank"]), int(header["row_bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return dict(header)


def has_row(path: Path) -> bool:
    """Whether the first row of a training process's steps has been written: start-up is over."""
    header = read_header(path)
    if header is None:
        return False
    with open(path, "rb") as file:
        file.seek(int(header.get("header_bytes", HEADER_BYTES)))
        return any(file.read(8))


class _Boots:
    """What launchers told the processes that imported torch, read from the boot records as those grow."""

    def __init__(self, run: Path) -> None:
        self._path = run / names.BOOT
        self._bytes = 0
        self._foreign: set[tuple[str, int]] = set()
        self.local: dict[int, str] = {}  # pid of a numbered process on this host -> the tag it begins with
        self.world = 1  # ranks of the job

    def read(self) -> None:
        """Take in what was added since the last time."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._bytes)
                data = file.read()
        except OSError:
            return
        lines = data[: data.rfind(b"\n") + 1]
        self._bytes += len(lines)
        for line in lines.splitlines():
            try:
                boot = orjson.loads(line)
                job, pid = boot["job"], int(boot["pid"])
                tag = f"rank{int(job['rank'])}"
            except (ValueError, KeyError, TypeError):
                continue  # of no job, or a broken line
            if job.get("host", HOST) != HOST:
                self._foreign.add((tag, pid))
            else:
                self.local[pid] = tag
                self.world = max(self.world, int(job.get("world", 1)))

    def is_foreign(self, tag: str, pid: int) -> bool:
        """Whether a process of another host has the tag; here, its number may be anybody's."""
        return (tag.split(".")[0], pid) in self._foreign


class _DeclaredWorkers:
    """Loader workers that made themselves known in the events files, read as those grow."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._read_bytes: dict[Path, int] = {}
        self._pids: set[int] = set()

    def pids(self) -> set[int]:
        """The process ids declared so far and not dropped by `keep`."""
        for path in self._run.glob(names.events_file(ANY_RANK)):
            for line in self._new_lines(path):
                if b'"worker' in line:
                    self._pids.update(_worker_pids(line))
        return self._pids

    def keep(self, living: Any) -> None:
        """Forget those that have ended."""
        self._pids &= set(living)

    def _new_lines(self, path: Path) -> Iterator[bytes]:
        try:
            with open(path, "rb") as file:
                file.seek(self._read_bytes.get(path, 0))
                data = file.read()
        except OSError:
            return
        lines = data[: data.rfind(b"\n") + 1]
        self._read_bytes[path] = self._read_bytes.get(path, 0) + len(lines)
        yield from lines.splitlines()


def _worker_pids(line: bytes) -> list[int]:
    try:
        event = orjson.loads(line)
    except ValueError:
        return []
    if event.get("event") == "worker":
        return [int(event["pid"])]
    return [int(pid) for pid in event.get("workers") or ()] if event.get("event") == "epoch" else []


def _children(process: psutil.Process) -> list[int]:
    """Direct children, without a scan of every process on the host where the kernel lists them."""
    if not LISTS_CHILDREN:
        try:
            return [child.pid for child in process.children()]
        except psutil.Error:
            return []
    children: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            with open(f"/proc/{process.pid}/task/{thread}/children", "rb") as file:
                children.extend(int(word) for word in file.read().split())
    except OSError:
        pass  # it ended while it was read
    return children
