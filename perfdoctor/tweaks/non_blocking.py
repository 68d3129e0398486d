"""Copy batches to the device without blocking the host.

## What changes
`batch.to(device)` and `batch.cuda()` of tensors that a `DataLoader` has pinned (`pin_memory=True`) get
`non_blocking=True`: the host goes on while the device copies. CUDA devices only.

## Left alone
- Memory that is not pinned, which the host copies itself: add `--pin-memory`.
- Memory that the script has pinned itself, or has written into: it may write again while the device reads.
- Copies from the device to the host, where the host could read the data before it has arrived, and
  `Module.to`.
- A script that uses its own CUDA streams, which may rely on copies that wait.
- Without a CUDA device there is nothing to do.

## Same result
Bit for bit: later work on the device waits for the copy.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, Optional, Tuple

from ..probe.accelerators import CUDA, MPS, built_for
from ..probe.trial.by_hand import Argument
from ..probe.trial.tweak import BITWISE, Tweaking, tweak

WHAT = "copy to the device"
STREAMS = "the script uses its own CUDA streams"
TOLD_MAX = 64  # copies whose reason to be left alone is told: finding their line costs more than staying out


@tweak("--non-blocking", BITWISE, edits=[Argument("to", "cuda", "xpu", name="non_blocking", every=True)])
def non_blocking(here: Tweaking) -> None:
    """Make copies of tensors that a loader has pinned asynchronous."""
    torch = here.torch
    kind = _kind(torch)
    if kind is None:
        return
    copies = Copies(here, kind)
    here.on_import("torch.utils.data._utils.pin_memory", copies.watch_loaders)
    module = getattr(torch, kind, None)
    if hasattr(module, "set_stream"):
        here.alter(module, "set_stream", copies.before_stream)
    here.alter_instances(torch.Tensor, "to", copies.before_to)
    if hasattr(torch.Tensor, kind):
        here.alter_instances(torch.Tensor, kind, copies.before_kind)


def _kind(torch: Any) -> Optional[str]:
    """The kind of device that copies pinned memory beside the host's work, if torch is built for one."""
    if torch.version.cuda or torch.version.hip:
        return CUDA
    built = built_for(torch)
    return None if built is None or built.kind in (CUDA, MPS) else built.kind


class Copies:
    """Keeps which tensors a loader has pinned, and alters the calls that copy them."""

    def __init__(self, here: Tweaking, kind: str) -> None:
        self.here = here
        self.kind = kind
        self.tensor = here.torch.Tensor
        self.pinned: Dict[int, Tuple[Any, int]] = {}  # identity -> weak reference, version
        self.streams = False  # the script has streams of its own
        self.altered = False  # copies did not wait before it had
        self.looked = 0

    def watch_loaders(self, module: Any) -> None:
        """Note each tensor that a DataLoader pins: its function calls itself for every part of a batch."""
        self.here.alter(module, "pin_memory", self.before_pin, self.after_pin)

    def before_pin(self, args: Any, kwargs: Any) -> Any:
        """Called before a tensor is pinned: waits for the result."""
        return args, kwargs, args

    def after_pin(self, args: Any, result: Any) -> Any:
        """Remembers a tensor that was pinned here for as long as it exists."""
        if isinstance(result, self.tensor) and result is not args[0] and not result.is_inference():
            identity, pinned = id(result), self.pinned
            gone = weakref.ref(result, lambda _: pinned.pop(identity, None))
            pinned[identity] = gone, result._version
        return result

    def before_stream(self, args: Any, kwargs: Any) -> None:
        """Called when the script selects a stream: stops."""
        if self.altered and not self.streams:
            self.here.withdrawn(WHAT, STREAMS)
        self.streams = True

    def before_to(self, args: Any, kwargs: Any) -> Any:
        """`tensor.to(...)`, whose first argument may be a device, a tensor or a number type."""
        if not args[0].is_cpu:
            return None
        target = args[1] if len(args) > 1 else kwargs.get("device", kwargs.get("other"))
        place = 2 if isinstance(target, self.tensor) else 3  # behind a device there is a number type
        return self._altered(args, kwargs, place) if self._is_device(target) else None

    def before_kind(self, args: Any, kwargs: Any) -> Any:
        """`tensor.cuda(...)`, `tensor.xpu(...)`."""
        return self._altered(args, kwargs, 2) if args[0].is_cpu else None

    def _is_device(self, target: Any) -> bool:
        if isinstance(target, str):
            return target.partition(":")[0] == self.kind
        if isinstance(target, self.tensor):
            return bool(target.device.type == self.kind)
        return type(target) is int or getattr(target, "type", None) == self.kind

    def _altered(self, args: Any, kwargs: Any, place: int) -> Any:
        """The call without waiting; `place` is where the flag stands among the arguments, if by position."""
        if len(args) > place or kwargs.get("non_blocking"):
            return None
        source = args[0]
        because = self._unfit(source)
        if because is None:
            self.altered = True
            self.here.applied(f"{WHAT} non_blocking", False, True)
            return args, {**kwargs, "non_blocking": True}, None
        if self.looked < TOLD_MAX:
            self.looked += 1
            self.here.left_alone(WHAT, because)
        return None

    def _unfit(self, source: Any) -> Optional[str]:
        """The reason why the host has to wait for this copy, or None."""
        if self.streams:
            return STREAMS
        base = source if source._base is None else source._base
        _, version = self.pinned.get(id(base), (None, None))
        if version is None:
            return "no DataLoader pinned its memory"
        if version != source._version:
            return "the script writes into it"
        return None
