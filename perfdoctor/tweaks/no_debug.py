"""Turn off what is there for finding errors.

## What changes
- Anomaly detection (`torch.autograd.set_detect_anomaly`, `detect_anomaly`) stays off.
- `CUDA_LAUNCH_BLOCKING` is taken out of the environment before CUDA starts, and
  `torch.cuda.set_sync_debug_mode` keeps to its default.
- `emit_nvtx` and `emit_itt` mark no operations.
- A profiler without a schedule that has recorded ten updates is stopped: what it holds stays readable, and
  its handler of traces is not called.

## Left alone
- `torch.use_deterministic_algorithms`: it makes results repeatable, and is no help for debugging alone.
- Profilers with a schedule, or that end sooner; `gradcheck`, and checks for NaN that the script makes
  itself.

## Same result
Bit for bit. An error that a mode was there to report goes unseen.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List

from ..probe import patch
from ..probe.tweak import BITWISE, Tweaking, tweak
from ..probe.where import user_line

BLOCKING = "CUDA_LAUNCH_BLOCKING"
UPDATES = 10  # somebody who looks at a few steps on purpose is done by then
OFF = (None, 0, "default")  # a mode that is not asked for; False equals 0


@tweak("--no-debug", BITWISE)
def no_debug(here: Tweaking) -> None:
    """Keep modes made for debugging off."""
    torch = here.torch

    def before_anomaly(args: Any, kwargs: Any) -> Any:
        if _asked(args, kwargs) in OFF:
            return None
        here.applied("anomaly detection", True, False)
        return (False, *args[1:]), {key: kwargs[key] for key in kwargs if key != "enabled"}, None

    def before_sync(args: Any, kwargs: Any) -> Any:
        mode = _asked(args, kwargs)
        if mode in OFF:
            return None
        here.applied("torch.cuda.set_sync_debug_mode", mode, "default")
        return ("default",), {}, None

    def before_marks(args: Any, kwargs: Any) -> Any:
        if _asked(args[1:], kwargs or {"enabled": True}) in OFF:
            return None
        here.applied(type(args[0]).__name__, True, False)
        return args[:1], {"enabled": False}, None

    def before_cuda(args: Any, kwargs: Any) -> None:
        if os.environ.get(BLOCKING, "0") not in ("", "0"):
            here.applied(BLOCKING, os.environ.pop(BLOCKING), None)

    def before_deterministic(args: Any, kwargs: Any) -> None:
        if _asked(args, kwargs) not in OFF:
            here.left_alone("deterministic algorithms", "they are there for results that can be repeated")

    before_cuda((), {})
    here.alter(torch, "set_anomaly_enabled", before_anomaly)
    here.alter(torch.cuda, "set_sync_debug_mode", before_sync)
    here.alter(torch.cuda, "_lazy_init", before_cuda)
    for name in ("use_deterministic_algorithms", "set_deterministic_debug_mode"):
        here.alter(torch, name, before_deterministic)
    for marks in (torch.autograd.profiler.emit_nvtx, torch.autograd.profiler.emit_itt):
        here.alter(marks, "__init__", before_marks)
    Profilers(here).install()


def _asked(args: Any, kwargs: Any) -> Any:
    """The first argument of a call, whatever its name."""
    return args[0] if args else next(iter(kwargs.values()), None)


class Profilers:
    """The profilers without a schedule that are on: each is stopped once it was on for long enough."""

    def __init__(self, here: Tweaking) -> None:
        self.here = here
        self.running: Dict[int, List[Any]] = {}  # identity -> [profiler, line that started it, updates since]

    def before_start(self, args: Any, kwargs: Any) -> Any:
        """Wait until it runs."""
        return args, kwargs, args[0]

    def after_start(self, profiler: Any, result: Any) -> Any:
        """Count from here on."""
        if not getattr(profiler, "record_steps", False) and getattr(profiler, "enabled", True):
            self.running[id(profiler)] = [profiler, user_line(), 0]
        return result

    def before_stop(self, args: Any, kwargs: Any) -> None:
        """It ends by itself."""
        self.running.pop(id(args[0]), None)

    def after_update(self, optimizer: Any) -> None:
        """Stop those that have seen enough."""
        for entry in list(self.running.values()):
            entry[2] += 1
            if entry[2] == UPDATES:
                profiler, at, _ = self.running.pop(id(entry[0]))
                _stop(profiler)
                self.here.applied("profiler", "recording", f"stopped after {UPDATES} updates", at)

    def install(self) -> None:
        """Watch the two kinds that torch has."""
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
    """End the recording, and leave the profiler such that the script can go on with it as before."""
    if hasattr(profiler, "stop_trace"):
        nothing = type(profiler.current_action).NONE
        profiler.stop_trace()
        profiler.current_action = nothing
        profiler.schedule = lambda step: nothing
    else:
        profiler.__exit__(None, None, None)
        profiler.enabled = False
