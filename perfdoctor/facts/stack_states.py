"""Tells what a sampled thread was at: on a core, waiting for something, or idle."""

from __future__ import annotations

import re

from perfdoctor.facts.data.batch_stages import QUEUE
from perfdoctor.facts.user_source.frames import Frame, Owner, parse
from perfdoctor.facts.user_source.library_table import of_statement, of_wait
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.batch import Stage
from perfdoctor.model.flame import ThreadState
from perfdoctor.model.measured import Phase
from perfdoctor.model.recorded import RecordedStack

# Functions of multiprocessing's connections that wait for the other end; the rest of them pack and unpack.
AWAITING = frozenset({"poll", "_poll", "wait", "accept", "_recv", "recv_bytes", "recvfds"})
CONNECTION = re.compile(r"[/\\](?:multiprocessing[/\\](?:connection|reduction|resource_sharer)|socket)\.py$")
# Innermost functions of torch that block until a device, or another rank, is done.
BLOCKING = frozenset({"synchronize", "wait", "barrier"})
BLOCKING_FILES = re.compile(
    r"[/\\]torch[/\\](?:(?:cuda|xpu|mps|accelerator)[/\\]|distributed[/\\]distributed_c10d\.py$)"
)


def state_of(stack: RecordedStack, sources: Sources) -> ThreadState:
    """What a stack was at, as far as its innermost frame tells.

    C code has no frame: a call into it that blocks looks like one that computes, unless its line is known to
    wait. A thread that waits with none of the user's code above it is idle: it waits to be given work. Only
    the thread that trains is never idle.
    """
    frames = [frame for name in stack.frames if (frame := parse(name)) is not None]
    if not frames or not _waits(frames[-1], stack.phase, sources):
        return "running"
    has_work = stack.thread == "main" or any(frame.owner is Owner.USER for frame in frames)
    return "waiting" if has_work else "idle"


def _waits(inner: Frame, phase: str, sources: Sources) -> bool:
    if inner.owner is Owner.USER:
        work = of_statement(sources.file(inner.file).statement(inner.line))
        return work is not None and work[0] is Stage.WAITING
    if phase == Phase.GRAD_SYNC.value:
        return True
    if CONNECTION.search(inner.file):
        return inner.name in AWAITING
    if of_wait(inner) is not None:
        return not QUEUE.search(inner.file)  # pickling has no frame of its own, waiting does
    return inner.name in BLOCKING and bool(BLOCKING_FILES.search(inner.file))
