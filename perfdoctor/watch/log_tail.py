"""What a program printed, read back from its log: the error that it ended by."""

from __future__ import annotations

import os
import re
from pathlib import Path

TAIL_BYTES = 64_000  # of a log, where its error is looked for
ERROR = re.compile(r"^(?:\[rank\d+\]: ?)?((?:\w+\.)*\w*(?:Error|Exception)\b.*)$")
# What a launcher says of a rank that ended by an error of its own.
LAUNCHERS = ("torch.distributed.elastic.", "subprocess.CalledProcessError")


def tail(log: Path) -> str:
    """The end of what was printed; empty where there is no log."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def last_error(text: str, rank: int | None = None) -> str | None:
    """The last error that was printed, in one line; a launcher's own only where no rank printed one.

    With `rank`, of the lines that torch marks as that rank's, once it has joined the others.
    """
    lines = [line.strip() for line in text.splitlines()]
    if rank is not None:
        lines = [line for line in lines if line.startswith(f"[rank{rank}]:")]
    errors = [match[1].strip() for line in lines if (match := ERROR.match(line))]
    of_ranks = [line for line in errors if not line.startswith(LAUNCHERS)]
    return next(reversed(of_ranks or errors), None)
