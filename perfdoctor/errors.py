"""Errors that reach the user: one sentence of what happened, one of what to type next."""

from __future__ import annotations


class PerfdoctorError(Exception):
    """An error shown as one line, with a hint and an exit code, and never as a traceback."""

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class NoSuchRun(PerfdoctorError):
    """The run asked for is not there."""


class NotARun(PerfdoctorError):
    """The folder is not a run directory, or nothing in it can be read."""


class CannotStart(PerfdoctorError):
    """The command could not be started; the exit code is the shell's (126 or 127)."""

    def __init__(self, message: str, hint: str | None = None, exit_code: int = 127) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code


class NotATrace(PerfdoctorError):
    """The file is no torch.profiler trace, or nothing in it can be read."""


class TraceTooLarge(PerfdoctorError):
    """The trace is larger than the cap on what is read."""


class TracesDoNotFit(PerfdoctorError):
    """Files given together are not those of the ranks of one job."""
