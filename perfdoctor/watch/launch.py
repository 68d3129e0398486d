"""Starts the user's command with the probe injected, stays beside it, and writes down how it ended.

The command keeps its own interpreter, arguments, standard streams, process group and signals. Whatever goes
wrong on our side, the command runs on, and its status is what `Outcome` tells.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.dataclass import dataclass
from perfdoctor.own_failures import guarded
from perfdoctor.runs import directory, interruption
from perfdoctor.watch import command, failures, limits, scheduler_task, signals, unwatched
from perfdoctor.watch.options import Options, config
from perfdoctor.watch.run_json import RunFile
from perfdoctor.wire import names

FAILED = "watching failed, which does not touch your command: {}"


class Sampler(Protocol):
    """What samples the host while the command runs."""

    def stop(self) -> None:
        """End sampling and finish the files; a second call does nothing."""


WhileRunning = Callable[[Path, "subprocess.Popen[bytes]"], AbstractContextManager[Any]]
Sample = Callable[[Path, int, Mapping[str, Any]], Sampler]
Tell = Callable[[str], None]  # a sentence of ours to the user


def untold(sentence: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class CommandExit:
    """How the command ended, and where its run is kept (None: it was not watched)."""

    path: Path | None
    status: int  # as a shell tells it: 128 + number after a signal
    signal: int | None = None
    ended_by: int | None = None  # Ctrl-C's, or another signal for perfdoctor and the command alike
    failed: str | None = None  # which rank of several failed first, and how, in a sentence
    failed_rank: int | None = None
    given_up: bool = False  # Ctrl-C came once it had ended: nobody waits for more than its status

    @property
    def interrupted(self) -> bool:
        """Whether somebody ended perfdoctor and the command."""
        return self.ended_by is not None


def run(
    words: Sequence[str],
    options: Options,
    watch: WhileRunning | None = None,
    sample: Sample | None = None,
    tell: Tell = untold,
) -> CommandExit:
    """Run the command to its end and keep what was seen.

    `watch(path, process)` is entered once the command runs and left once it has ended; `sample` replaces
    the host's samplers; `tell` takes what the user should know meanwhile, sentence by sentence. Raises
    CannotStart where the command could not be started at all.
    """
    resolved = command.resolve(words, os.environ)
    path = None if resolved.script_is_missing else make_run(resolved, options, tell)
    stopped = False

    def trouble(error: str) -> None:
        tell(FAILED.format(error))

    on_end = (lambda: None) if path is None else partial(interruption.keep, path)
    with signals.SignalForwarding(on_end) as forwarding:
        child = start(resolved, path, options)
        forwarding.aim(child.process)
        if path is not None:
            with guarded(trouble):
                limit = _limit(path, options, forwarding)
                sample = sample or _sampled(options, tell)
                stopped = _attend(child, path, options, limit, watch or _no_watch, sample, tell)
        child.end.wait()
    outcome = replace(exit_of(path, child.process.returncode, stopped), ended_by=forwarding.ended_by)
    try:
        return _finished(outcome, resolved.argv, child.process.returncode, options, tell, trouble)
    except KeyboardInterrupt:
        if options.trial is not None:
            raise
        return replace(outcome, given_up=True)


def _finished(
    outcome: CommandExit,
    argv: Sequence[str],
    returncode: int,
    options: Options,
    tell: Tell,
    trouble: Tell,
) -> CommandExit:
    """What is done once the command has ended, and signals are ours again."""
    if outcome.path is None:
        return outcome
    with guarded(trouble):
        _pack(outcome.path, tell)
    if not outcome.status or outcome.interrupted:
        return outcome
    failed, rank = None, None
    with guarded(trouble):
        failed, rank = failures.first(outcome.path, argv, returncode, options.task)
    return replace(outcome, failed=failed, failed_rank=rank)


def mirror(outcome: CommandExit) -> NoReturn:
    """End this process as the command ended: with its exit status, or by the same signal."""
    signals.mirror(outcome.status, outcome.signal)


def _attend(
    child: Child,
    path: Path,
    options: Options,
    limit: limits.Limit,
    watch: WhileRunning,
    sample: Sample,
    tell: Tell,
) -> bool:
    """Stay beside the command to its end and write down what became of it; True if we ended it."""
    pid, began = child.process.pid, (child.began_ns, child.began_epoch_s)
    record = RunFile(path, child.command.argv, pid, began, options.tweaks, options.keep_arguments)
    write(record, tell)
    if options.trial is None:
        directory.reserve(path)
    lookout = unwatched.Lookout(path, pid, tell)
    # To interrupt a script whose loader is measured is what was asked for: no word of it.
    told = tell if options.loader is None else untold
    ending = limits.Termination(pid, lambda: told(limits.STOPPED))
    try:
        with ExitStack() as stack:
            sampler = sample(path, pid, config(options))
            stack.callback(sampler.stop)
            stack.enter_context(watch(path, child.process))
            _stand_by(child.end, limit, ending.tick if options.stop else sampler.stop, lookout)
            ending.finish()
    finally:
        child.end.wait()
        directory.free_reserve(path)
        record.finish(child.process.returncode, child.end.at_ns, ending.begun, lookout.found.values())
        write(record, tell)
        tidy(path)
    return ending.begun


def write(record: RunFile, tell: Tell = untold) -> None:
    """Write run.json; a full disk is said and nothing more."""
    try:
        record.write()
    except OSError as error:
        directory.note_full(record.file.parent, error)
        tell(f"cannot write {record.file}: {error.strerror}")


def _limit(path: Path, options: Options, forwarding: signals.SignalForwarding) -> limits.Limit:
    if options.loader is not None:
        return limits.BenchmarkLimit(path, options.loader["seconds"])
    if options.trial is None:
        return limits.WatchLimit(path, options.max_steps, options.max_seconds)
    within_s = options.trial.max_training_s  # the probe ends the script from within: give it time to
    bounds = options.max_steps, options.max_seconds, within_s
    # nothing of it is kept
    return limits.WatchLimit(path, *bounds, limits.LEAVING_S, lambda: forwarding.ending)


def _pack(path: Path, tell: Tell) -> None:
    """Compress what windows exported, once nobody waits for the cores; what fails stays as it is."""
    try:
        directory.pack_traces(path)
    except OSError as error:
        tell(f"the windows stay uncompressed: {error.strerror}")


def _stand_by(
    end: _CommandEnd, limit: limits.Limit, then: Callable[[], None], lookout: unwatched.Lookout
) -> None:
    """Wait for the end of the command, doing on the way what has to be done at its time."""
    while not end.wait(min(lookout.pause_s, limit.pause_s)):
        lookout.tick()
        if limit.is_over():
            then()


@dataclass(frozen=True)
class Child:
    """The command, started."""

    command: command.Command
    process: subprocess.Popen[bytes]
    end: _CommandEnd
    began_ns: int
    began_epoch_s: float


class _CommandEnd:
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


def make_run(started: command.Command, options: Options, tell: Tell = untold) -> Path | None:
    """The run directory with its options, or None where nothing can be written: the command still runs."""
    if options.trial is not None:
        directory.make_private(options.trial.path.parent)
        options.trial.path.mkdir(mode=0o700)
        _prepare(options.trial.path, options)
        return options.trial.path
    name = started.name if options.task is None else f"{started.name}-task{options.task.rank}"
    try:
        kind = "runs" if options.loader is None else "loaders"
        parent = directory.home(options.out, kind).absolute()
        path = directory.create(parent, name)
        _prepare(path, options)
    except OSError as error:
        if options.out is not None:
            hint = "give a folder that you may write to: perfdoctor run --out FOLDER ..."
            raise PerfdoctorError(f"cannot write to {options.out}: {error.strerror}", hint) from None
        if options.loader is not None:  # unwatched, the command would train
            hint = "give a folder that you may write to: perfdoctor loader --out FOLDER ..."
            raise PerfdoctorError(f"cannot save the measurements: {error.strerror}", hint) from None
        tell(f"cannot save a run ({error.strerror}): the command runs unwatched")
        return None
    if options.out is None and parent != directory.here(kind):
        tell(f"the current folder cannot be written to: the run is kept in {path}")
    return path


def _prepare(path: Path, options: Options) -> None:
    """Put into a run directory what the probe needs there. Raises OSError where it cannot be written."""
    directory.write_json(path / names.CONFIG, config(options))
    with suppress(OSError):  # a file system without links: the environment tells the probe where the run is
        (path / directory.PROBE).symlink_to(unwatched.INJECT)
    if options.task is not None:
        scheduler_task.share_windows(path, options.task)


def tidy(path: Path) -> None:
    """Take out what was needed only while the command ran."""
    with suppress(OSError):
        (path / directory.PROBE).unlink(missing_ok=True)
        scheduler_task.part_windows(path)


def start(resolved: command.Command, path: Path | None, options: Options) -> Child:
    """Start the command, probed where `path` is a run. Raises CannotStart, and then no run is left."""
    environ = os.environ if path is None else environment(os.environ, path)
    began = time.perf_counter_ns(), time.time()
    try:
        process = _open(resolved.argv, environ, options)
    except OSError as error:
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)
        raise command.cannot_start(resolved.argv[0], error) from None
    return Child(resolved, process, _CommandEnd(process), *began)


def _open(argv: Sequence[str], environ: Mapping[str, str], options: Options) -> subprocess.Popen[bytes]:
    """The command's process."""
    trial = options.trial
    if trial is None:
        # close_fds: what the shell opened for the command (3>log) stays open, as without us.
        # Where it is not the script that was asked for, its output makes room for ours.
        stdout = sys.stderr if options.loader is not None else None
        return subprocess.Popen(argv, env=environ, close_fds=False, stdout=stdout)
    with open(trial.log, "wb", opener=directory.opened_private) as log:
        return subprocess.Popen(
            (*trial.before, *argv),
            env={**environ, **trial.environ},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=trial.apart,
        )


def environment(environ: Mapping[str, str], path: Path) -> dict[str, str]:
    """The user's environment with the probe in it.

    The interpreter finds the probe by a link beside the run's files. So the probe finds the run, even where a
    launcher gives its ranks nothing of the environment but PYTHONPATH.
    """
    beside = path / directory.PROBE
    by_link = beside.is_dir() and os.pathsep not in str(beside)
    entries = [str(beside) if by_link else unwatched.INJECT]
    if environ.get("PYTHONPATH"):  # an empty entry would mean the current folder
        entries.append(environ["PYTHONPATH"])
    return {**environ, "PYTHONPATH": os.pathsep.join(entries), names.RUN_VARIABLE: str(path)}


def _no_watch(path: Path, process: subprocess.Popen[bytes]) -> AbstractContextManager[None]:
    return nullcontext()


def _sampled(options: Options, tell: Tell) -> Sample:
    """The samplers of the host, which say a line where ranks hang."""

    def sample(path: Path, pid: int, options_of_run: Mapping[str, Any]) -> Sampler:
        from perfdoctor.watch import samplers  # here: the command does not wait for numpy and psutil

        others = None if options.task is None else lambda: scheduler_task.hung_ranks(path)
        return samplers.start(path, pid, options_of_run, tell, others)

    return sample


def exit_of(path: Path | None, returncode: int, stopped: bool = False) -> CommandExit:
    """How a command ended, as a shell would say it; one that we stopped ended well."""
    if stopped:
        return CommandExit(path, 0)
    if returncode < 0:
        return CommandExit(path, 128 - returncode, -returncode)
    return CommandExit(path, returncode)
