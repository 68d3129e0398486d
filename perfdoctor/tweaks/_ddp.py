"""Shared by the tweaks of DistributedDataParallel: its arguments, its hooks, its first pass."""

from __future__ import annotations

import inspect
import weakref
from typing import Any, Callable, Dict, Optional

from ..probe.trial.tweak import Tweaking
from ..probe.user_frames import user_line

CALL = "DistributedDataParallel"
# Hooks that average gradients as torch does without one, if in fewer bits.
AVERAGING = frozenset(
    (
        "",
        "allreduce_hook",
        "fp16_compress_hook",
        "bf16_compress_hook",
        "BuiltinCommHookType.ALLREDUCE",
        "BuiltinCommHookType.FP16_COMPRESS",
    )
)


def on_arguments(here: Tweaking, change: Callable[[Any, Dict[str, Any]], bool]) -> None:
    """Let `change(model, arguments by name)` alter the constructor's arguments; it returns whether it did."""
    wrapper = here.torch.nn.parallel.DistributedDataParallel
    signature = inspect.signature(wrapper.__init__)

    def before(args: Any, kwargs: Any) -> Any:
        try:
            given = dict(signature.bind(*args, **kwargs).arguments)
        except TypeError:
            return None  # the script is about to learn that from torch
        return (args[:1], given, None) if change(given.pop("self"), given) else None

    here.alter(wrapper, "__init__", before)


def hook_of(model: Any) -> str:
    """The name of the hook that synchronises this model's gradients; empty if torch does it itself."""
    if any(hasattr(parameter, "_in_backward_optimizers") for parameter in model.parameters()):
        return "apply_optimizer_in_backward"  # its hook comes with the first pass
    return str(model._get_ddp_logging_data().get("comm_hook") or "")


def alone(model: Any) -> bool:
    """Whether there is no other process to synchronise gradients with."""
    return bool(model.process_group.size() == 1)


def at_first_pass(here: Tweaking, prepare: Callable[[Any, Optional[Dict[str, Any]]], None]) -> None:
    """Call `prepare(model, line that built it)` right before each wrapped model's first pass with gradients.

    Later than its constructor, since the script may still have settings of its own to make by then.
    """
    wrapper = here.torch.nn.parallel.DistributedDataParallel
    built: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def before_init(args: Any, kwargs: Any) -> None:
        built[args[0]] = user_line()

    def before_pass(args: Any, kwargs: Any) -> None:
        if args[0] in built and here.torch.is_grad_enabled():
            prepare(args[0], built.pop(args[0]))

    here.alter(wrapper, "__init__", before_init)
    here.alter(wrapper, "forward", before_pass)
