"""A process with all that it has started."""

from __future__ import annotations

from contextlib import suppress

import psutil


def with_descendants(pid: int) -> list[psutil.Process]:
    """The process and all below it, itself first; none where it has ended."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def lives(process: psutil.Process) -> bool:
    """Whether a process still holds what it has opened.

    Its environment is gone before its ports are, and it is a zombie as soon as its first thread has ended.
    """
    with suppress(psutil.Error):
        if process.is_running():
            return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    return False
