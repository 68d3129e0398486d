"""Compute with N threads in each process that trains.

## What changes
The threads that torch computes an operation with on the CPU, from the moment it is imported; later calls of
`torch.set_num_threads` ask for N as well.

## Left alone
- Workers of a `DataLoader` and its thread that pins memory, which keep their one thread.
- Threads between operations (`torch.set_num_interop_threads`), and those of other libraries, such as
  NumPy's.

## Same result
Within rounding: sums over parts are added up in another order.
"""

from __future__ import annotations

import sys
from typing import Any

from ..probe import patch
from ..probe.tweak import ROUNDING, Count, Tweaking, tweak

WHAT = "torch.set_num_threads"
THREADS_MAX = 1024  # more than the largest machines have cores


@tweak("--threads", ROUNDING, Count(1, THREADS_MAX))
def threads(here: Tweaking, count: int) -> None:
    """Use `count` threads, whatever the script asks for."""
    torch = here.torch
    was = torch.get_num_threads()
    if was == count:
        here.left_alone(WHAT, f"there are {count} threads already")
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
    """Whether the call that was altered stands in torch's own code: it is about helpers of its own."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals is vars(patch):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "")).startswith("torch.")
