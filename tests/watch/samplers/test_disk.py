"""Bytes on disks, of real processes whose children end."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from perfdoctor.watch.samplers.disk import DiskBytes

WRITTEN = 4_000_000
PARENT = """
    import os, sys
    def write(name, size):
        with open(name, "wb") as file:
            file.write(os.urandom(size))
            os.fsync(file.fileno())
    child = os.fork()
    if not child:
        write("child.bin", {size})
        sys.stdout.write(f"{{os.getpid()}}\\n")
        sys.stdout.flush()
        os.read(0, 1)
        os._exit(0)
    os.waitpid(child, 0)
    write("parent.bin", {size})
    print("waited", flush=True)
    os.read(0, 1)
"""


class Counted:
    """A process, as psutil has it, that has written so much."""

    def __init__(self, pid: int, parent: int, written: int) -> None:
        self.pid, self.parent, self.written = pid, parent, written

    def io_counters(self) -> Any:
        return SimpleNamespace(read_bytes=2 * self.written, write_bytes=self.written)

    def ppid(self) -> int:
        return self.parent


def told(disk: DiskBytes, *processes: Counted) -> list[int | None]:
    """What is told of each of them, which are all there are."""
    disk.keep(process.pid for process in processes)
    assert all(disk.of(process)[0] == 2 * (disk.of(process)[1] or 0) for process in processes)
    return [disk.of(process)[1] for process in processes]


def test_what_a_child_wrote_that_ended_counts_once() -> None:
    disk = DiskBytes()
    assert told(disk, Counted(1, 0, 10), Counted(2, 1, 70)) == [10, 70]
    # it wrote 5 more before it ended, and its parent 1
    assert told(disk, Counted(1, 0, 10 + 75 + 1)) == [10 + 5 + 1]
    assert told(disk, Counted(1, 0, 10 + 75 + 3)) == [10 + 5 + 3]


def test_a_child_that_has_not_been_waited_for_takes_nothing_from_its_parent() -> None:
    disk = DiskBytes()
    told(disk, Counted(1, 0, 10), Counted(2, 1, 70))
    assert told(disk, Counted(1, 0, 10)) == [10]
    assert told(disk, Counted(1, 0, 10 + 70 + 2)) == [12]


def test_what_a_child_inherited_from_its_own_is_not_taken_off_twice() -> None:
    disk = DiskBytes()
    told(disk, Counted(1, 0, 10), Counted(2, 1, 20), Counted(3, 2, 30))
    assert told(disk, Counted(1, 0, 10), Counted(2, 1, 50)) == [10, 20]
    assert told(disk, Counted(1, 0, 60)) == [10]


def test_children_that_came_and_went_unseen_count_for_their_parent() -> None:
    disk = DiskBytes()
    told(disk, Counted(1, 0, 10))
    assert told(disk, Counted(1, 0, 80)) == [80]


@pytest.mark.process
def test_the_kernel_counts_as_is_assumed_here(tmp_path: Path) -> None:
    script = [sys.executable, "-c", textwrap.dedent(PARENT.format(size=WRITTEN))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": tmp_path}
    with subprocess.Popen(script, **pipes) as process:
        child, parent = psutil.Process(int(process.stdout.readline())), psutil.Process(process.pid)
        disk = DiskBytes()
        before = disk.of(parent)[1] or 0
        if not (disk.of(child)[1] or 0) >= WRITTEN:
            process.communicate(b"..")
            pytest.skip("nothing is written to a disk here, or not counted")
        os.write(process.stdin.fileno(), b".")
        assert process.stdout.readline() == b"waited\n"
        disk.keep([parent.pid])
        after = disk.of(parent)[1] or 0
        process.communicate(b".")
    assert WRITTEN <= after - before < 1.5 * WRITTEN
