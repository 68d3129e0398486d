"""Where a rank is: what its stack says, from outside or from within, and what it says itself."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from perfdoctor.model.measured import Location
from perfdoctor.model.user_code import INSTALLED
from perfdoctor.runs.hangs import HungRank, Inside
from perfdoctor.runs.raw import COUNT, read_now
from perfdoctor.watch.samplers.pyspy import SampledStack
from perfdoctor.watch.samplers.stacks import training_thread

ODD = {"other": "a collective"}  # what has no name of its own
OURS = str(Path(__file__).parents[2])
CALLED = "torch/distributed/distributed_c10d.py"  # where the functions that ranks meet in are defined
_FRAME = re.compile(r"(?P<function>.*) \((?P<file>.*):(?P<line>\d+)\)")


def placed(hung: HungRank, stacks: Sequence[SampledStack]) -> HungRank:
    """The same with what the stacks of its process show."""
    trains = training_thread(hung.pid, stacks)
    frames = next((stack.frames for stack in stacks if stack.thread_id == trains), ())
    places = [_FRAME.fullmatch(frame) for frame in frames]
    frames_of_script = [place for place in places if place and not place["file"].startswith(OURS)]
    user_frames = [place for place in frames_of_script if not INSTALLED.search(place["file"])]
    called = next(
        (str(place["function"]) for place in frames_of_script if place["file"].endswith(CALLED)), None
    )
    return replace(
        hung,
        at=Location(user_frames[-1]["file"], int(user_frames[-1]["line"]), user_frames[-1]["function"])
        if user_frames
        else None,
        functions=tuple(place["function"] for place in frames_of_script),
        inside=Inside(called) if called else None,
    )


def slot(collectives: Path) -> Inside | None:
    """The collective that the rank with this file says it is in."""
    now = read_now(collectives)
    if now is None:
        return None
    seconds = round((time.perf_counter_ns() - now["begin_ns"]) / 1e9, 1)
    op = str(now["op"])
    return Inside(ODD.get(op, op), seconds, now["step"], now["sequence"])


def is_from_within(samples: Path) -> bool:
    """Whether a file of folded stacks is written by the process itself."""
    with suppress(OSError), open(samples, "rb") as file:
        return b"source=in-process" in file.readline()
    return False


def commonest(samples: Path, begin: int, pid: int) -> SampledStack | None:
    """The stack of the training thread that was seen most among the lines from byte `begin` on."""
    with open(samples, encoding="utf-8", errors="replace") as file:
        file.seek(begin)
        parted = [line.rstrip("\n").rpartition(" ") for line in file if line.startswith("main;")]
    counted = [(int(count), stack) for stack, _, count in parted if COUNT.fullmatch(count)]
    if not counted:
        return None
    count, stack = max(counted)
    return SampledStack(pid, "main", tuple(stack.split(";")[1:]), count)
