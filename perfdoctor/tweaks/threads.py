"""Compute with N threads in each process that trains.

## What changes
The number of threads that torch uses for an operation on the CPU, from the moment it is imported; later calls
of `torch.set_num_threads` set N as well.

## Left alone
- The workers of a `DataLoader` and its thread that pins memory, which keep their single thread.
- Threads between operations (`torch.set_num_interop_threads`), and those of other libraries, such as
  NumPy's.

## Same result
Within rounding: partial sums are added up in another order.
"""

from __future__ import annotations

import sys
from typing import Any

from ..probe import patch
from ..probe.trial.by_hand import Argument, Statement
from ..probe.trial.tweak import ROUNDING, Count, Tweaking, WatchedRun, tweak

WHAT = "torch.set_num_threads"
THREADS_MAX = 1024  # more than the largest machines have cores


def predict(run: WatchedRun, count: int) -> Any:
    """That many threads in the model of the step, of one process that computes on the CPU."""
    known = run.modelled and run.threads is not None
    return run.changes(threads=count) if known and run.device == "cpu" and run.ranks == 1 else None


@tweak(
    "--threads",
    ROUNDING,
    Count(1, THREADS_MAX),
    predict=predict,
    edits=[Argument("set_num_threads", name="int", place=0), Statement("torch.set_num_threads({})")],
    acts_on=("compute", "data"),  # cores that training does not use, workers do
)
def threads(here: Tweaking, count: int) -> None:
    """Use `count` threads, whatever the script sets."""
    torch = here.torch
    was = torch.get_num_threads()
    if was == count:
        here.left_alone(WHAT, f"the number of threads is already {count}")
    else:
        torch.set_num_threads(count)
        here.applied(WHAT, was, count)

    def before(args: Any, kwargs: Any) -> Any:
        if not args or args[0] == count or here.session.in_worker() or _called_by_torch():
            return None
        here.applied(WHAT, args[0], count)
        return (count,), kwargs, None

    here.alter(torch, "set_num_threads", before)


def _called_by_torch() -> bool:
    """Whether torch's own code made the call: it then sets the threads of torch's helpers."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals is vars(patch):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "")).startswith("torch.")
