"""Real processes and run directories for the sampler tests."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

COLUMNS = [
    ["end_ns", "<i8"],
    ["begin_ns", "<i8"],
    ["marker", "<u1"],
    ["optimizer", "<u2"],
    ["marks", "<u4"],
    ["data_wait", "<i8"],
]
ROW_BYTES = 31

BUSY = """
import time
def compute():
    while True:
        sum(range(2000))
compute()
"""

FORKING = """
import multiprocessing, time
def work():
    while True:
        sum(range(2000))
if __name__ == "__main__":
    for _ in range(2):
        multiprocessing.get_context("{method}").Process(target=work, daemon=True).start()
    while True:
        time.sleep(0.01)
"""


def header(pid: int, rank: int = 0) -> bytes:
    """The first 4096 bytes of a steps file."""
    fields = {"pid": pid, "rank": rank, "row_bytes": ROW_BYTES, "header_bytes": 4096, "columns": COLUMNS}
    return json.dumps(fields).encode().ljust(4095) + b"\n"


def steps_file(run: Path, pid: int, rank: int = 0, rows: bytes = b"\x01" * ROW_BYTES) -> Path:
    """A steps file of `pid`, with one row unless told otherwise, and room for more."""
    path = run / f"steps.rank{rank}.bin"
    path.write_bytes(header(pid, rank) + rows + bytes(4096))
    return path


@contextlib.contextmanager
def python(tmp_path: Path, source: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process at work on `source`, killed with everything below it at the end."""
    script = tmp_path / "target.py"
    script.write_text(source)
    process = subprocess.Popen([sys.executable, str(script)], start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(condition: Callable[[], object], limit_s: float = 20.0) -> None:
    """Wait until `condition()` is true; fail after `limit_s`."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
