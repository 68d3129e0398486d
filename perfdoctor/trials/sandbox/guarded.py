"""Executions that end with this process, whatever ends it: a kill leaves nobody to clear up after them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from perfdoctor.trials.sandbox import guard
from perfdoctor.wire.names import RUN_VARIABLE

GUARD = guard.__file__


@contextmanager
def guarded(executions: Sequence[Path]) -> Iterator[None]:
    """While it is open, the end of this process ends these executions as well, whatever ended it."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", GUARD, RUN_VARIABLE, *map(str, executions)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.write(b"over")
            process.stdin.close()
        process.wait()
