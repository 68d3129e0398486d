"""The calls by which ranks exchange something, wrapped where they are defined.

The wrappers do nothing, and nothing else of ours is loaded, until the process has a process group.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from ...wire.collective_rows import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BARRIER,
    BROADCAST,
    OTHER_OP,
    REDUCE_SCATTER,
)
from .. import compile_question, patch
from ..on_import import on_import
from ..session import Session
from ..wrapping import Args, Kwargs

if TYPE_CHECKING:
    from ..steps.steps import StepTracker
    from .exchange import CallSignature, GradientSync


NOTHING = -1, ""
CALLS: Dict[str, CallSignature] = {
    "all_reduce": (ALL_REDUCE, 0, "tensor", False, 2, True),
    "all_reduce_coalesced": (ALL_REDUCE, 0, "tensors", False, 2, True),
    "all_gather": (ALL_GATHER, 1, "tensor", True, 2, True),
    "all_gather_single": (ALL_GATHER, 0, "output_tensor", False, 2, True),
    "all_gather_into_tensor": (ALL_GATHER, 0, "output_tensor", False, 2, True),
    "_all_gather_base": (ALL_GATHER, 0, "output_tensor", False, 2, True),
    "all_gather_coalesced": (ALL_GATHER, 1, "input_tensor_list", True, 2, True),
    "reduce_scatter": (REDUCE_SCATTER, 0, "output", True, 3, True),
    "reduce_scatter_single": (REDUCE_SCATTER, 1, "input", False, 3, True),
    "reduce_scatter_tensor": (REDUCE_SCATTER, 1, "input", False, 3, True),
    "_reduce_scatter_base": (REDUCE_SCATTER, 1, "input", False, 3, True),
    "broadcast": (BROADCAST, 0, "tensor", False, 2, True),
    "_broadcast_coalesced": (BROADCAST, 1, "tensors", False, 0, False),  # buffers, before a forward
    "all_to_all": (ALL_TO_ALL, 1, "input_tensor_list", False, 2, True),
    "all_to_all_single": (ALL_TO_ALL, 1, "input", False, 4, True),
    "barrier": (BARRIER, *NOTHING, False, 0, True),
    "monitored_barrier": (BARRIER, *NOTHING, False, 0, False),
    "reduce": (OTHER_OP, 0, "tensor", False, 3, True),
    "gather": (OTHER_OP, 0, "tensor", True, 3, True),
    "scatter": (OTHER_OP, 0, "tensor", True, 3, True),
}


class CollectiveWrappers:
    """The wrappers of one process."""

    def __init__(self, session: Session, steps: StepTracker) -> None:
        self.session = session
        self.steps = steps
        self.exchange: Optional[GradientSync] = None

    def before(self, signature: CallSignature) -> Callable[[Args, Kwargs], Any]:
        """What comes before one of the calls."""

        def before(args: Args, kwargs: Kwargs) -> Any:
            exchange = self.exchange or self.begin()
            return None if exchange is None else exchange.before_call(signature, args, kwargs)

        return before

    def after(self, token: Any, args: Args, result: Any) -> None:
        """What comes after any of them."""
        if self.exchange is not None:
            self.exchange.after_call(token, result)

    def begin(self) -> Optional[GradientSync]:
        """Record from now on, if there is a process group."""
        distributed = sys.modules["torch.distributed"]
        if self.exchange is None and distributed.is_initialized():
            from . import exchange  # here: a process that trains alone does without

            compile_question.hide_module(exchange)
            self.exchange = exchange.GradientSync(self.session, distributed)
            exchange.install(self.exchange)
            self.steps.moments.second.append(self.exchange.pulse)
            self.session.on_end.append(self.exchange.pulse)
        return self.exchange

    def group_made(self) -> None:
        """The process has its default group; names of groups before it mean others."""
        exchange = self.begin()
        if exchange is not None:
            exchange.groups.clear()
            exchange.group(None)

    def model_made(self, model: Any) -> None:
        """A DistributedDataParallel was built."""
        exchange = self.begin()
        if exchange is None:
            return
        from . import ddp

        if self.steps.backwards.gradient_sync is None:
            compile_question.hide_module(ddp)
            self.steps.backwards.gradient_sync = ddp.Gradients(exchange)
        self.steps.backwards.gradient_sync.watch(model)


def install(collectives: CollectiveWrappers) -> None:
    """Put the wrappers into torch, once it has its distributed part."""

    def watch(module: Any) -> None:
        package = sys.modules["torch.distributed"]
        for name, signature in CALLS.items():
            owner = module if hasattr(module, name) else package
            original = getattr(owner, name, None)
            if original is None:
                continue  # another version of torch
            patch.wrap(owner, name, collectives.before(signature), collectives.after, "grad_sync")
            if getattr(package, name, None) is original:  # torch.distributed took the names over already
                setattr(package, name, getattr(module, name))

    on_import("torch.distributed.distributed_c10d", patch.guarded("grad_sync", watch))
