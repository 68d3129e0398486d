"""The turns of a training on a device: numbers in a file that it and its trial map both.

A device goes on with what is queued while its process is stopped. So the probe waits for the device where a
turn's measured steps begin and end, and stays where it is, with nothing queued, until the next turn is set.
"""

from __future__ import annotations

import mmap

from .files import allocate

FIELDS = ("updates", "begin", "end", "park", "begun_ns", "ended_ns", "parked_ns")
BYTES = 8 * len(FIELDS)


def make(path: str) -> None:
    """Make the file, with no turn set. Raises OSError."""
    with open(path, "xb") as file:
        allocate(file.fileno(), 0, mmap.PAGESIZE)


def _number(index: int) -> property:
    def read(turns: DeviceTurns) -> int:
        return int(turns._numbers[index])

    def write(turns: DeviceTurns, value: int) -> None:
        turns._numbers[index] = value

    return property(read, write)


class DeviceTurns:
    """The numbers as both sides see them; 0 until one is written. Updates are the first optimizer's.

    The probe writes how many updates were made, when (perf_counter_ns) the device had done all up to where
    the measured steps begin and end, and when it parked; the trial writes, while the process is stopped,
    after which updates they begin and end, and after which one to park, and takes out the times of before.
    """

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._numbers = memoryview(mmap.mmap(file.fileno(), BYTES)).cast("q")

    updates, begin, end, park, begun_ns, ended_ns, parked_ns = (
        _number(index) for index in range(len(FIELDS))
    )
