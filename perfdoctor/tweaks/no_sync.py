"""Synchronise gradients only in the last pass before an update.

## What changes
Where a script accumulates the gradients of several passes for one update, `DistributedDataParallel` averages
them over all processes after each pass. With this tweak it does so after the last one only, as inside
`no_sync()`. Which pass is the last one is learned: two updates in a row after equally many passes set the
expected number. Passes beyond it synchronise gradients; if an update comes sooner, as at the end of an epoch,
gradients are averaged right before it, or before torch clips or unscales them. Buffers are broadcast as often
as before.

## Left alone
- A script that skips syncs itself, as Lightning, Transformers and Accelerate do.
- A model that is updated after every pass, or after a different number of passes each time. Where gradients
  are cleared or changed between two passes, the passes before do not count.
- A model with a hook that does anything but averaging, or with sparse gradients.
- A single process, and passes inside `join()` or inside the step of an optimizer.

## Same result
Within rounding: a sum of averages against an average of sums. Not so where a script reads gradients between
two passes of one update without changing them, or by its own means before an update that comes sooner than
expected: it sees those of its own process.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, FrozenSet, Iterable, List, Optional, Set, Tuple

from ..probe import patch
from ..probe.trial.tweak import ROUNDING, Tweaking, tweak
from ..probe.user_frames import user_line
from ._ddp import AVERAGING, alone, hook_of

WHAT = "gradient sync after each pass"
READERS = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm")
UNSETTLED = 10  # updates without two in a row after as many passes: there is no pattern to rely on


class Passes:
    """Keeps what is known of the passes through one wrapped model."""

    def __init__(self, model: Any) -> None:
        self.at = user_line()
        self.owned: FrozenSet[int] = frozenset(id(parameter) for parameter in _exchanged(model))
        self.off = False  # exchange in every pass from now on
        self.skipped = False  # not every pass has
        self.count = 0  # backward passes since the last update, or since somebody changed the gradients
        self.fewest: Optional[int] = None  # that somebody changed gradients after, since the last update
        self.last = 0  # passes of the update before
        self.expected = 0  # before the next update; 0 while unknown
        self.updates = 0
        self.exchanging: Optional[bool] = None  # of the forward passes since the last backward one, if any
        self.apart = False  # whether the processes have gradients of their own
        self._left: Tuple[int, Any] = (0, None)  # a gradient as the last pass left it

    def owns(self, parameters: Iterable[Any]) -> bool:
        """Whether this model synchronises any of them."""
        return any(id(parameter) in self.owned for parameter in parameters)

    def begin(self, model: Any) -> None:
        """Called when a forward pass begins: gradients that were changed since have been used."""
        if self.count and self._left != _witness(model):
            self.fewest = min(self.count, self.fewest or self.count)
            self.count = 0

    def end(self, model: Any, counts: bool) -> None:
        """A backward pass has ended."""
        self.apart = not self.exchanging
        self.exchanging = None
        self.count += counts
        self._left = _witness(model)

    def learn(self) -> bool:
        """Called when an update is over; returns whether the expected number of passes changed."""
        passes = min(self.count, self.fewest or self.count)
        was = self.expected
        if passes == self.last:
            self.expected = passes
        self.last, self.count, self.fewest = passes, 0, None
        self.updates += 1
        return self.expected != was or (not self.expected and self.updates == UNSETTLED)


class NoSync:
    """The wrapped models of this process."""

    def __init__(self, here: Tweaking) -> None:
        self.here = here
        self.known: weakref.WeakKeyDictionary[Any, Passes] = weakref.WeakKeyDictionary()
        self.updating: Set[int] = set()  # identities of optimizers inside their step

    # ------------------------------------------------------------ passes

    def before_init(self, args: Any, kwargs: Any) -> Tuple[Any, Any, Any]:
        """Wait for the constructor."""
        return args, kwargs, args[0]

    def after_init(self, model: Any, result: Any) -> Any:
        """Watch the passes through a model that was wrapped."""
        if hasattr(model, "reducer"):  # its constructor did not raise
            reason = _unfit(model)
            if reason is None:
                self.known[model] = Passes(model)
            else:
                self.here.left_alone(WHAT, reason)
        return result

    def before_forward(self, args: Any, kwargs: Any) -> Any:
        """Keeps this pass from synchronising gradients, if another one follows before the update."""
        model = args[0]
        passes = self.known.get(model)
        if passes is None or not self.here.torch.is_grad_enabled():
            return None
        if not model.require_backward_grad_sync:
            passes.exchanging = None
            self._stop(passes, "the script skips syncs itself")
            return None
        passes.begin(model)
        passes.exchanging = not self._may_skip(model, passes)
        if passes.exchanging:
            return None
        passes.skipped = True
        self.here.applied(WHAT, f"{passes.expected} per update", "1 per update")
        model.require_backward_grad_sync = False
        return args, kwargs, model

    def _may_skip(self, model: Any, passes: Passes) -> bool:
        another_follows = passes.count + 1 < passes.expected
        return another_follows and not (passes.off or self.updating or model._join_config.enable)

    def after_forward(self, model: Any, result: Any) -> Any:
        """Leave the model as the script made it: its buffers are broadcast in each pass."""
        model.require_backward_grad_sync = model.require_forward_param_sync = True
        return result

    def before_backward(self, args: Any, kwargs: Any) -> Tuple[Any, Any, Any]:
        """Wait for the pass."""
        return args, kwargs, True

    def after_backward(self, token: Any, result: Any) -> Any:
        """Count the pass for each model that it can have gone through."""
        for model, passes in list(self.known.items()):
            if passes.exchanging is not None:
                passes.end(model, counts=not self.updating)
        return result

    # ------------------------------------------------------------ updates

    def before_update(self, optimizer: Any) -> None:
        """An optimizer is about to step."""
        self.updating.add(id(optimizer))
        self._settle_owned(optimizer)

    def after_update(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        self.updating.discard(id(optimizer))
        parameters = _parameters(optimizer)
        for model, passes in list(self.known.items()):
            if passes.count and passes.owns(parameters) and passes.learn() and not passes.off:
                self._judge(model, passes)

    def _judge(self, model: Any, passes: Passes) -> None:
        """Called when the expected number changed: leaves alone what has nothing to skip."""
        if passes.expected == 1:
            self.here.left_alone(WHAT, "every pass is followed by an update", passes.at)
        elif not passes.expected:
            self._stop(passes, "the number of passes per update changes", passes.at)
        elif hook_of(model) not in AVERAGING:
            self._stop(passes, f"the script synchronises them with {hook_of(model)}", passes.at)

    def _stop(self, passes: Passes, because: str, at: Optional[Dict[str, Any]] = None) -> None:
        """Leave a model's syncs to the script from now on."""
        if not passes.off:
            passes.off = True
            (self.here.withdrawn if passes.skipped else self.here.left_alone)(WHAT, because, at)

    def _settle_owned(self, optimizer: Any) -> None:
        parameters = _parameters(optimizer)
        for model, passes in list(self.known.items()):
            if passes.apart and passes.owns(parameters):
                self._settle(model, passes)

    def _settle(self, model: Any, passes: Passes) -> None:
        """Averages gradients that were not synchronised over the processes, before they are read."""
        if passes.apart:
            passes.apart = False
            self.here.left_alone(WHAT, "gradients are used after fewer passes than expected")
            average(self.here.torch, model)

    # ------------------------------------------------------------ who else reads gradients

    def before_reading(self, args: Any, kwargs: Any) -> None:
        """`clip_grad_norm_` or its like is about to read gradients."""
        for model, passes in list(self.known.items()):
            self._settle(model, passes)

    def before_scaler(self, args: Any, kwargs: Any) -> None:
        """A GradScaler is about to read an optimizer's gradients."""
        self._settle_owned(args[1] if len(args) > 1 else kwargs["optimizer"])


@tweak("--no-sync", ROUNDING, waits=UNSETTLED)
def no_sync(here: Tweaking) -> None:
    """Make every DistributedDataParallel synchronise gradients once per update."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    torch = here.torch
    wrapper = torch.nn.parallel.DistributedDataParallel
    own = NoSync(here)
    here.alter(wrapper, "__init__", own.before_init, own.after_init)
    here.alter(wrapper, "forward", own.before_forward, own.after_forward)
    here.alter(torch.autograd, "backward", own.before_backward, own.after_backward)
    for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
        for name in READERS:
            if hasattr(owner, name):
                here.alter(owner, name, own.before_reading)
    scaler = torch.amp.grad_scaler.GradScaler
    here.alter(scaler, "unscale_", own.before_scaler)
    here.alter(scaler, "step", own.before_scaler)
    register_optimizer_step_pre_hook(patch.optimizer_hook(here.name, own.before_update))
    register_optimizer_step_post_hook(patch.optimizer_hook(here.name, own.after_update))


def average(torch: Any, model: Any) -> None:
    """Give all processes the mean of their gradients; one that only some have counts as 0 in the others."""
    distributed = torch.distributed
    parameters = [parameter for parameter in _exchanged(model) if parameter.requires_grad]
    group = model.process_group
    with torch.no_grad():
        device = parameters[0].device
        holders = torch.tensor([float(p.grad is not None) for p in parameters], device=device)
        distributed.all_reduce(holders, group=group)
        for parameter, count in zip(parameters, holders.tolist()):
            if not count:
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            mean = parameter.grad.contiguous().div_(group.size())
            distributed.all_reduce(mean, group=group)
            parameter.grad.copy_(mean)


def _unfit(model: Any) -> Optional[str]:
    """The reason why this model's syncs cannot be skipped, or None."""
    if alone(model):
        return "there is only one process"
    if any(getattr(module, "sparse", False) is True for module in model.module.modules()):
        return "its gradients are sparse"
    if getattr(model, "_use_python_reducer", False):
        return "compiled code synchronises its gradients"
    return None


def _exchanged(model: Any) -> List[Any]:
    """The parameters whose gradients this model synchronises, in an order that all processes share."""
    return [p for name, p in model.module.named_parameters() if name not in model.parameters_to_ignore]


def _witness(model: Any) -> Tuple[int, Any]:
    """One gradient, and how often it was changed in place."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            return id(parameter.grad), parameter.grad._version
    return 0, None


def _parameters(optimizer: Any) -> List[Any]:
    groups: List[Dict[str, Any]] = optimizer.param_groups
    return [parameter for group in groups for parameter in group["params"]]
