"""Turn off debugging modes.

## What changes
- Anomaly detection (`torch.autograd.set_detect_anomaly`, `detect_anomaly`) stays off.
- `CUDA_LAUNCH_BLOCKING` is removed from the environment before CUDA starts, and
  `torch.cuda.set_sync_debug_mode` stays at its default.
- `emit_nvtx` and `emit_itt` annotate no operations.
- A profiler without a schedule is stopped after ten recorded updates: its data stays readable, and its trace
  handler is not called.

## Left alone
- `torch.use_deterministic_algorithms`: it makes results reproducible, and is not only for debugging.
- Profilers with a schedule, or that end sooner; `gradcheck`, and the script's own checks for NaN.

## Same result
Bit for bit. An error that a debugging mode would have reported goes unnoticed.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List

from ..probe import patch
from ..probe.trial.by_hand import Argument
from ..probe.trial.tweak import BITWISE, Tweaking, tweak
from ..probe.user_frames import user_line

BLOCKING = "CUDA_LAUNCH_BLOCKING"
UPDATES = 10  # somebody who looks at a few steps on purpose is done by then
OFF = (None, 0, "default")  # a mode that is not asked for; False equals 0


@tweak(
    "--no-debug",
    BITWISE,
    waits=UPDATES,
    edits=[
        Argument("set_detect_anomaly", name="mode", place=0, what="anomaly"),
        Argument("set_sync_debug_mode", name="debug_mode", place=0, what="torch.cuda.set_sync"),
    ],
)
def no_debug(here: Tweaking) -> None:
    """Keep modes made for debugging off."""
    torch = here.torch

    def before_anomaly(args: Any, kwargs: Any) -> Any:
        if _argument(args, kwargs, "enabled") in OFF:
            return None
        here.applied("anomaly detection", True, False)
        return (False, *args[1:]), {key: kwargs[key] for key in kwargs if key != "enabled"}, None

    def before_sync(args: Any, kwargs: Any) -> Any:
        mode = _argument(args, kwargs, "debug_mode")
        if mode in OFF:
            return None
        here.applied("torch.cuda.set_sync_debug_mode", mode, "default")
        return ("default",), {}, None

    def before_marks(args: Any, kwargs: Any) -> Any:
        if _argument(args[1:], {"enabled": True, **kwargs}, "enabled") in OFF:
            return None
        here.applied(type(args[0]).__name__, True, False)
        return args[:1], {"enabled": False}, None

    def before_cuda(args: Any, kwargs: Any) -> None:
        if os.environ.get(BLOCKING, "0") not in ("", "0"):
            here.applied(BLOCKING, os.environ.pop(BLOCKING), None)

    def before_deterministic(args: Any, kwargs: Any) -> None:
        if _argument(args, kwargs, "mode", "debug_mode") not in OFF:
            here.left_alone("deterministic algorithms", "they make results reproducible")

    before_cuda((), {})
    here.alter(torch, "set_anomaly_enabled", before_anomaly)
    here.alter(torch.cuda, "set_sync_debug_mode", before_sync)
    here.alter(torch.cuda, "_lazy_init", before_cuda)
    for name in ("use_deterministic_algorithms", "set_deterministic_debug_mode"):
        here.alter(torch, name, before_deterministic)
    for marks in (torch.autograd.profiler.emit_nvtx, torch.autograd.profiler.emit_itt):
        here.alter(marks, "__init__", before_marks)
    Profilers(here).install()


def _argument(args: Any, kwargs: Any, *names: str) -> Any:
    """The first argument of a call, which may go by any of these names."""
    return args[0] if args else next((kwargs[name] for name in names if name in kwargs), None)


class Profilers:
    """The running profilers without a schedule: each is stopped once it has recorded enough."""

    def __init__(self, here: Tweaking) -> None:
        self.here = here
        self.running: Dict[int, List[Any]] = {}  # identity -> [profiler, line that started it, updates since]

    def before_start(self, args: Any, kwargs: Any) -> Any:
        """Called before a profiler starts: waits until it runs."""
        return args, kwargs, args[0]

    def after_start(self, profiler: Any, result: Any) -> Any:
        """Called when a profiler has started: counts updates from here on."""
        if not getattr(profiler, "record_steps", False) and getattr(profiler, "enabled", True):
            self.running[id(profiler)] = [profiler, user_line(), 0]
        return result

    def before_stop(self, args: Any, kwargs: Any) -> None:
        """Called when a profiler ends by itself: forgets it."""
        self.running.pop(id(args[0]), None)

    def after_update(self, optimizer: Any) -> None:
        """Stops the profilers that have recorded enough."""
        for entry in list(self.running.values()):
            entry[2] += 1
            if entry[2] == UPDATES:
                profiler, at, _ = self.running.pop(id(entry[0]))
                _stop(profiler)
                self.here.applied("profiler", "recording", f"stopped after {UPDATES} updates", at)

    def install(self) -> None:
        """Watches the two kinds of profiler that torch has."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        torch = self.here.torch
        for kind, begin, end in (
            (torch.profiler.profile, "start", "stop"),
            (torch.autograd.profiler.profile, "__enter__", "__exit__"),
        ):
            self.here.alter(kind, begin, self.before_start, self.after_start)
            self.here.alter(kind, end, self.before_stop)
        register_optimizer_step_post_hook(patch.optimizer_hook(self.here.name, self.after_update))


def _stop(profiler: Any) -> None:
    """Ends the recording, and leaves the profiler usable for the script."""
    if hasattr(profiler, "stop_trace"):
        nothing = type(profiler.current_action).NONE
        profiler.stop_trace()
        profiler.current_action = nothing
        profiler.schedule = lambda step: nothing
    else:
        profiler.__exit__(None, None, None)
        profiler.enabled = False
