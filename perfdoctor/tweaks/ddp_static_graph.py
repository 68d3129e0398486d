"""Look for unused parameters once, not in every pass.

## What changes
`DistributedDataParallel(find_unused_parameters=True)` searches the graph after each forward pass. It becomes
`static_graph=True`: the first pass shows which parameters are used, and later passes rely on it. That first
pass synchronises gradients even inside `no_sync()`; torch requires it.

## Left alone
A model that does not search, or is already static. Parameters that are never used do no harm.

The risk: if the set of used parameters changes from step to step, torch stops with an error that says so.
Then the search is needed.

## Same result
Within rounding. Two processes get the same bits; more processes add up in another order, because gradients
are assigned to buckets again after the first pass.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict

from ..probe.trial.by_hand import Argument
from ..probe.trial.tweak import ROUNDING, Tweaking, tweak
from ._ddp import CALL, on_arguments


@tweak(
    "--ddp-static-graph",
    ROUNDING,
    edits=[Argument(CALL, name="static_graph", to=True, instead_of=("find_unused_parameters",))],
)
def ddp_static_graph(here: Tweaking) -> None:
    """Make every DistributedDataParallel that searches for unused parameters static."""
    what = "DistributedDataParallel find_unused_parameters"
    fresh: weakref.WeakSet[Any] = weakref.WeakSet()  # made static, and not called yet

    def change(model: Any, given: Dict[str, Any]) -> bool:
        if given.get("static_graph"):
            here.left_alone(what, "its graph is already static")
        elif not given.get("find_unused_parameters"):
            here.left_alone(what, "it does not search")
        else:
            here.applied(what, True, "static_graph")
            given.update(find_unused_parameters=False, static_graph=True)
            fresh.add(model)
            return True
        return False

    def before_pass(args: Any, kwargs: Any) -> Any:
        model = args[0]
        if model not in fresh or not here.torch.is_grad_enabled():
            return None
        fresh.discard(model)
        if model.require_backward_grad_sync:
            return None
        model.require_backward_grad_sync = True
        return args, kwargs, model

    def after_pass(model: Any, result: Any) -> Any:
        model.require_backward_grad_sync = False
        return result

    on_arguments(here, change)
    here.alter(here.torch.nn.parallel.DistributedDataParallel, "forward", before_pass, after_pass)
