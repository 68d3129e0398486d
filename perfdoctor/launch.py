"""Starts the user's command with the probe injected, stays beside it, and writes down how it ended.

The command keeps its own interpreter, arguments, standard streams, process group and signals. Whatever goes
wrong on our side, the command runs on, and its status is what `Outcome` tells.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

from perfdoctor import command, limits, missed, redact, relay, rundir
from perfdoctor.errors import PerfdoctorError

LOOKS_S = (4.0, 10.0, 30.0)  # when to look for interpreters that the probe did not reach; later once a minute
LATER_LOOKS_S = 60.0


class Sampler(Protocol):
    """What samples the host while the command runs."""

    def stop(self) -> None:
        """End sampling and finish the files; a second call does nothing."""


Watch = Callable[[Path, "subprocess.Popen[bytes]"], AbstractContextManager[Any]]
Sample = Callable[[Path, int, Mapping[str, Any]], Sampler]


@dataclass(frozen=True)
class Options:
    """What `perfdoctor run` was asked for."""

    max_steps: int | None = None
    max_seconds: float | None = None
    stop: bool = False  # end the script with the watch
    out: str | None = None  # the folder that holds runs
    quiet: bool = False
    profiler: bool = True
    profiler_share: float = 0.01  # of the time since the first step, for all windows together
    stacks: bool = True
    loader: Mapping[str, Any] | None = None  # measure a DataLoader, with these options, instead of training


@dataclass(frozen=True)
class Outcome:
    """How the command ended, and where its run is kept (None: it was not watched)."""

    path: Path | None
    status: int  # as a shell tells it: 128 + number after a signal
    signal: int | None = None


def run(
    words: Sequence[str],
    options: Options,
    watch: Watch | None = None,
    sample: Sample | None = None,
) -> Outcome:
    """Run the command to its end and keep what was seen.

    `watch(path, process)` is entered once the command runs and left once it has ended; `sample` replaces
    the host's samplers. Raises CannotStart where the command could not be started at all.
    """
    chosen = command.resolve(words, os.environ)
    path = None if chosen.script_is_missing else _make_run(chosen, options)
    stopped = False
    with relay.Relay() as signals:
        child = _start(chosen, path, options)
        signals.aim(child.process)
        if path is not None:
            with _OurTrouble(options.quiet):
                stopped = _attend(child, path, options, watch or _no_watch, sample or _sample)
        child.end.wait()
    return _outcome(path, child.process.returncode, stopped)


def mirror(outcome: Outcome) -> NoReturn:
    """End this process as the command ended: with its exit status, or by the same signal."""
    relay.mirror(outcome.status, outcome.signal)


def say(sentence: str, quiet: bool) -> None:
    """One line of our own on stderr, which may be closed."""
    if not quiet and sys.stderr is not None:
        printable = "".join(letter if letter.isprintable() else "?" for letter in sentence)
        with suppress(OSError, ValueError):
            sys.stderr.write(f"perfdoctor: {printable}\n")
            sys.stderr.flush()


def _attend(child: _Child, path: Path, options: Options, watch: Watch, sample: Sample) -> bool:
    """Stay beside the command to its end and write down what became of it; True if we ended it."""
    record = _Record(path, child)
    record.write(options.quiet)
    lookout = _Lookout(path, child.process.pid, options.quiet)
    limit = _limit(path, options)
    ending = limits.Ending(child.process.pid)
    try:
        with ExitStack() as stack:
            sampler = sample(path, child.process.pid, _config(options))
            stack.callback(sampler.stop)
            stack.enter_context(watch(path, child.process))
            _stand_by(child.end, limit, ending.tick if options.stop else sampler.stop, lookout)
    finally:
        child.end.wait()
        record.finish(ending.begun, lookout.found.values())
        record.write(options.quiet)
    _pack(path, options.quiet)
    return ending.begun


def _limit(path: Path, options: Options) -> limits.Bound:
    if options.loader is not None:
        return limits.Measuring(path, options.loader["seconds"])
    return limits.Limit(path, options.max_steps, options.max_seconds)


def _pack(path: Path, quiet: bool) -> None:
    """Compress what windows exported, once nobody waits for the cores; what fails stays as it is."""
    try:
        rundir.pack_traces(path)
    except OSError as error:
        say(f"the windows stay uncompressed: {error.strerror}", quiet)


def _stand_by(end: _End, limit: limits.Bound, then: Callable[[], None], lookout: _Lookout) -> None:
    """Wait for the end of the command, doing on the way what has to be done at its time."""
    while not end.wait(min(lookout.pause_s, limit.pause_s)):
        lookout.tick()
        if limit.is_over():
            then()


class _OurTrouble:
    """Keeps what fails on our side from the command: it is said in one line, and the command runs on."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> bool:
        if isinstance(error, Exception):
            say(f"the watch failed, the command did not: {type(error).__name__}: {error}", self._quiet)
            return True
        return False


@dataclass(frozen=True)
class _Child:
    """The command, started."""

    command: command.Command
    process: subprocess.Popen[bytes]
    end: _End
    began_ns: int
    began_epoch_s: float


class _End:
    """The end of the command, waited for in a thread of its own so that the main thread keeps its signals."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.at_ns = 0
        self._process = process
        self._ended = threading.Event()
        threading.Thread(target=self._wait, name="perfdoctor-wait", daemon=True).start()

    def _wait(self) -> None:
        self._process.wait()
        self.at_ns = time.perf_counter_ns()
        self._ended.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end, at most `timeout_s`; True if it has come."""
        return self._ended.wait(timeout_s)


class _Lookout:
    """Looks now and then for interpreters that the probe did not reach."""

    def __init__(self, path: Path, pid: int, quiet: bool) -> None:
        self._path = path
        self._pid = pid
        self._quiet = quiet
        self._begin_s = time.monotonic()
        self._due_s = list(LOOKS_S)
        self.found: dict[int, missed.Missed] = {}

    @property
    def pause_s(self) -> float:
        """How long until the next look."""
        return max(0.0, self._begin_s + self._due_s[0] - time.monotonic())

    def tick(self) -> None:
        """Look, if it is time; a training that goes unwatched is told at once."""
        if self.pause_s > 0:
            return
        due_s = self._due_s.pop(0)
        if not self._due_s:
            self._due_s.append(due_s + LATER_LOOKS_S)
        for pid, found in missed.look(self._pid, self._path).items():
            if pid not in self.found and found.imported_torch:
                say(missed.note(found), self._quiet)
            self.found[pid] = found


class _Record:
    """run.json: written when the command has started, and again when it has ended."""

    def __init__(self, path: Path, child: _Child) -> None:
        self._path = path
        self._child = child
        self._fields: dict[str, Any] = {
            "schema": rundir.SCHEMA,
            "id": path.name,
            "command": redact.command(child.command.argv),
            "cwd": _here(),
            "pid": child.process.pid,
            "started_epoch_s": child.began_epoch_s,
            "begin_ns": child.began_ns,
            "end_ns": None,
            "exit_code": None,
            "outcome": "running",
            "versions": {"perfdoctor": _version()},
            "host": _host(child.process.pid),
            "environment": redact.environment(os.environ),
            "notes": [],
        }

    def finish(self, stopped: bool, found: Iterable[missed.Missed]) -> None:
        """Add how the command ended."""
        returncode = self._child.process.returncode
        outcome = "ok" if returncode == 0 else "failed" if returncode > 0 else "signalled"
        python = missed.python_version(self._path)
        self._fields["versions"] |= {"python": python} if python else {}
        self._fields |= {
            "end_ns": self._child.end.at_ns,
            "exit_code": returncode,
            "outcome": "stopped" if stopped else outcome,
            "notes": missed.notes(self._path, self._child.command.argv, found),
        }

    def write(self, quiet: bool) -> None:
        """Replace run.json; a full disk is said and nothing more."""
        try:
            rundir.write_json(self._path / "run.json", self._fields)
        except OSError as error:
            say(f"cannot write {self._path / 'run.json'}: {error.strerror}", quiet)


def _make_run(started: command.Command, options: Options) -> Path | None:
    """The run directory with its options, or None where nothing can be written: the command still runs."""
    try:
        kind = "runs" if options.loader is None else "loaders"
        parent = rundir.home(options.out, kind).absolute()
        path = rundir.create(parent, started.name)
        rundir.write_json(path / "config.json", _config(options))
    except OSError as error:
        if options.out is not None:
            hint = "pass a folder that you may write to: perfdoctor run --out FOLDER ..."
            raise PerfdoctorError(f"cannot write to {options.out}: {error.strerror}", hint) from None
        if options.loader is not None:  # unwatched, the command would train
            hint = "pass a folder that you may write to: perfdoctor loader --out FOLDER ..."
            raise PerfdoctorError(f"cannot keep what is measured: {error.strerror}", hint) from None
        say(f"cannot keep a run ({error.strerror}): the command goes unwatched", options.quiet)
        return None
    if options.out is None and parent != Path.cwd() / ".perfdoctor" / kind:
        say(f"this folder cannot be written to: the run is kept in {path}", options.quiet)
    return path


def _config(options: Options) -> dict[str, Any]:
    return {
        "watcher_pid": os.getpid(),  # whom a system that asks lets look into the command
        "max_steps": options.max_steps,
        "max_seconds": options.max_seconds,
        "stacks": options.stacks,
        "profiler": options.profiler,
        "profiler_share": options.profiler_share,
        "loader": options.loader,
    }


def _start(chosen: command.Command, path: Path | None, options: Options) -> _Child:
    environ = os.environ if path is None else environment(os.environ, path)
    began = time.perf_counter_ns(), time.time()
    try:
        # close_fds: what the shell opened for the command (3>log) stays open, as without us.
        # Where it is not the script that was asked for, its output makes room for ours.
        stdout = sys.stderr if options.loader is not None else None
        process = subprocess.Popen(chosen.argv, env=environ, close_fds=False, stdout=stdout)
    except OSError as error:
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)
        raise command.cannot_start(chosen.argv[0], error) from None
    return _Child(chosen, process, _End(process), *began)


def environment(environ: Mapping[str, str], path: Path) -> dict[str, str]:
    """The user's environment with the probe in it."""
    entries = [missed.INJECT]
    if environ.get("PYTHONPATH"):  # an empty entry would mean the current folder
        entries.append(environ["PYTHONPATH"])
    return {**environ, "PYTHONPATH": os.pathsep.join(entries), "PERFDOCTOR_RUN": str(path)}


def _no_watch(path: Path, process: subprocess.Popen[bytes]) -> AbstractContextManager[None]:
    return nullcontext()


def _version() -> str | None:
    from importlib import metadata  # here: the command has started by now, and did not wait for it

    try:
        return metadata.version("perfdoctor")
    except metadata.PackageNotFoundError:  # run from a checkout
        return None


def _here() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # the folder was removed
        return None


def _sample(path: Path, pid: int, options: Mapping[str, Any]) -> Sampler:
    from perfdoctor import samplers  # here: the command does not wait for numpy and psutil

    return samplers.start(path, pid, options)


def _host(pid: int) -> dict[str, Any]:
    from perfdoctor import samplers

    usable, limited_by = samplers.usable_cores(pid)
    return {
        "name": platform.node(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "usable_cores": usable,
        "limited_by": limited_by,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def _outcome(path: Path | None, returncode: int, stopped: bool = False) -> Outcome:
    if stopped:
        return Outcome(path, 0)
    if returncode < 0:
        return Outcome(path, 128 - returncode, -returncode)
    return Outcome(path, returncode)
