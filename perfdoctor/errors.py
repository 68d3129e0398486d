"""Errors that reach the user: one sentence of what happened, one of what to type next."""

from __future__ import annotations

SIGNALLED = 128  # what a shell adds to the number of a signal


class PerfdoctorError(Exception):
    """An error shown as one line, with a hint and an exit code, and never as a traceback."""

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class NoSuchRun(PerfdoctorError):
    """The requested run does not exist."""


class NotARun(PerfdoctorError):
    """The folder is not a run directory, or nothing in it can be read."""


class CannotStart(PerfdoctorError):
    """The command could not be started; the exit code is the shell's (126 or 127)."""

    def __init__(self, message: str, hint: str | None = None, exit_code: int = 127) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code


class NotATrace(PerfdoctorError):
    """The file is not a torch.profiler trace, or nothing in it can be read."""


class TraceTooLarge(PerfdoctorError):
    """The trace is larger than the limit for reading."""


class TracesDoNotFit(PerfdoctorError):
    """The given files do not belong to the ranks of one job."""


class Interrupted(PerfdoctorError):
    """Ctrl-C, or another signal that ends a program, before anything was measured."""

    def __init__(self, number: int) -> None:
        super().__init__("interrupted before anything was measured")
        self.exit_code = SIGNALLED + number
