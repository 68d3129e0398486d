"""A command that runs beside others and rests while they have their turn."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

import psutil

from perfdoctor.own_failures import guarded
from perfdoctor.runs import directory
from perfdoctor.watch import command, failures, launch
from perfdoctor.watch.options import Options, config
from perfdoctor.watch.run_json import RunFile
from perfdoctor.wire import names, turns


@contextmanager
def suspended_with(living: Sequence[LiveCommand]) -> Iterator[None]:
    """While it is open, a job that the shell suspends (Ctrl-Z) takes these commands along.

    They are in sessions of their own, and hear no shell. A signal that the caller ignores stays ignored.
    """

    def suspend(number: int, frame: FrameType | None) -> None:
        held_up = [each for each in living if not each.is_resting]
        for each in held_up:
            each.rest()
        os.kill(os.getpid(), signal.SIGSTOP)  # here we wait for `fg`
        for each in held_up:
            each.suspensions += 1
            each.go_on()

    before = signal.getsignal(signal.SIGTSTP)
    if before == signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGTSTP, suspend)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)


@contextmanager
def live(words: Sequence[str], options: Options, sample: launch.Sample) -> Iterator[LiveCommand]:
    """A command of a trial, live while the block runs; it has a session of its own, so that it can rest.

    The block ends it. What is still there afterwards is killed. Raises CannotStart where it could not start.
    """
    resolved = command.resolve(words, os.environ)
    path = launch.make_run(resolved, options)
    assert path is not None  # the run directory of a trial is made, or OSError is raised
    if options.trial is not None and options.trial.parks:
        turns.make(str(path / names.TURNS))
    child = launch.start(resolved, path, options)
    record = RunFile(
        path,
        resolved.argv,
        child.process.pid,
        (child.began_ns, child.began_epoch_s),
        options.tweaks,
        options.keep_arguments,
    )
    launch.write(record)
    living = LiveCommand(path, child)
    try:
        sampler = sample(path, child.process.pid, config(options))
        try:
            yield living
        finally:
            sampler.stop()
    finally:
        living.kill()
        record.finish(child.process.returncode, child.end.at_ns, living.was_ended, ())
        launch.write(record)
        launch.tidy(path)


class LiveCommand:
    """A command that runs beside others. Who started it lets it rest and go on, and ends it."""

    def __init__(self, path: Path, child: launch.Child) -> None:
        self.path = path
        self.was_ended = False  # by us
        self.suspensions = 0  # times that it was held up together with us
        self._is_resting = False
        self._child = child
        self._groups = {child.process.pid}

    @property
    def is_resting(self) -> bool:
        """Whether it was stopped and not let go on."""
        return self._is_resting

    @property
    def is_over(self) -> bool:
        """Whether the command has ended."""
        return self._child.end.wait(0)

    def rest(self) -> None:
        """Stop it with all that it has started."""
        self._is_resting = True
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on after a rest."""
        self._is_resting = False
        self._send(signal.SIGCONT)

    def find_groups(self) -> None:
        """Look for what has left its process group, as the ranks of torchrun do: that has to rest, too."""
        with suppress(psutil.Error):
            for member in psutil.Process(self._child.process.pid).children(recursive=True):
                with suppress(OSError):
                    self._groups.add(os.getpgid(member.pid))
        self._groups.discard(os.getpgrp())

    def leave(self) -> None:
        """Ask the script to end at its next step, as if it had left by itself."""
        self.was_ended = True
        with suppress(OSError):
            directory.end_watch(self.path)
        self.go_on()

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; True if it has come."""
        return self._child.end.wait(timeout_s)

    def kill(self) -> None:
        """End it now, whatever it does, with all that it has started."""
        if not self.is_over:
            self.was_ended = True
            self.find_groups()
        self._send(signal.SIGKILL)
        self._child.end.wait()

    def outcome(self) -> launch.CommandExit:
        """How it ended."""
        if self.was_ended:
            return launch.CommandExit(self.path, 0)
        outcome = launch.exit_of(self.path, self._child.process.returncode)
        failed, rank = None, None
        if outcome.status:
            with guarded(launch.untold):
                failed, rank = failures.first(
                    self.path, self._child.command.argv, self._child.process.returncode, None
                )
        return replace(outcome, failed=failed, failed_rank=rank)

    def _send(self, number: int) -> None:
        for group in self._groups:
            with suppress(OSError):  # it has just ended
                os.killpg(group, number)
