"""Use fused optimizers.

## What changes
Optimizers of `torch.optim` are switched as by `fused=True` (Adam, AdamW, SGD, Adagrad) before their first
step with gradients, where torch has a fused implementation for the device and type of their parameters.
Others that update tensor by tensor are switched as by `foreach=True`; on a CPU only where the tensors are
small. A `foreach=False` or `fused=False` in the script is overridden, also in a state that it loads later.
As with `fused=True`, a `GradScaler` then leaves the scaling to the step; a library that cannot clip gradients
beside that fails, as it would by hand.

## Left alone
- Optimizers that are already fused, that have their own `step`, or with `capturable` or `differentiable`.
- Sparse gradients, which no fused implementation takes; learning rates that are tensors; parameters that are
  DTensors.
- SGD with momentum, from the moment a parameter gets its first gradient later than others: fused, torch would
  stop with an error.

## Same result
Within rounding: the same formulas, evaluated in another order.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ..probe import patch
from ..probe.observers.constructors import way_of
from ..probe.trial.by_hand import Argument
from ..probe.trial.tweak import ROUNDING, Tweaking, tweak
from ..probe.user_frames import user_line

OPTIMIZERS = tuple("Adam AdamW SGD Adagrad NAdam RAdam RMSprop Adamax Adadelta ASGD Rprop".split())
PLAIN = ("Tensor", "Parameter", "FlatParameter")  # what all kernels for many tensors take
SPECIAL = ("capturable", "differentiable")
# On a CPU, foreach goes over all tensors once for each operation; one by one, a tensor stays in the cache.
# Parameters, gradients and two states of this size fill 1 MiB, as much as the caches of today's cores.
SMALL_BYTES = 2**18


@tweak(
    "--fused-optimizer",
    ROUNDING,
    edits=[Argument(*OPTIMIZERS, instead_of=("fused", "foreach"))],
)
def fused_optimizer(here: Tweaking) -> None:
    """Switch each optimizer to the fastest way that torch has for it."""

    def before(args: Any, kwargs: Any) -> Any:
        return args, kwargs, args[0]

    def after(optimizer: Any, result: Any) -> Any:
        if hasattr(optimizer, "_optimizer_step_pre_hooks"):  # it was not refused
            choice = Choice(here)
            optimizer.register_step_pre_hook(patch.optimizer_hook(here.name, choice.before_step))
        return result

    here.alter(here.torch.optim.Optimizer, "__init__", before, after)


class Choice:
    """Decides for one optimizer, at its first step with gradients, because these show most."""

    def __init__(self, here: Tweaking) -> None:
        self.here = here
        self.at = user_line()
        self.decided = False
        self.way: Optional[str] = None  # it was switched to
        self.waited = False  # a step found no gradients: a closure makes them inside
        self.late: List[Any] = []  # parameters whose first gradient has to be looked at
        self.was: List[Tuple[Dict[str, Any], Any, Any]] = []  # settings, and their own fused and foreach

    def before_step(self, optimizer: Any) -> None:
        """Decides, or checks for gradients that come late."""
        if self.late:
            self._look_at_late(optimizer)
        elif not self.decided:
            self._decide(optimizer)
        elif self.way and not all(group.get(self.way) for group in optimizer.param_groups):
            # A state that was saved before, and is loaded now, brings its settings along.
            _switch(self.here.torch, optimizer, self.way)

    def _decide(self, optimizer: Any) -> None:
        parameters = _parameters(optimizer)
        active = [parameter for parameter in parameters if parameter.grad is not None]
        if not active:
            self.waited = True
            return
        self.decided = True
        late = [p for p in parameters if p.grad is None] if _minds_late_gradients(optimizer) else []
        because = _unfit(self.here.torch, optimizer, active)
        if because is None and late and self.waited:
            because = "its gradients are computed inside the step, and some are still missing"
        way = None if because else _best(self.here.torch, optimizer, active)
        if way is None:
            self._leave(optimizer, because or "torch has no faster implementation for its tensors")
            return
        was = way_of(optimizer.param_groups[0], active)
        self.was = [(each, each.get("fused"), each["foreach"]) for each in _settings(optimizer)]
        _switch(self.here.torch, optimizer, way)
        self.way = way
        self.late = late if way == "fused" else []
        if way == "fused" and not late:  # else the script's own way, which needs the scale undone, may return
            optimizer._step_supports_amp_scaling = True
        self.here.applied(f"{type(optimizer).__name__} update", was, way, self.at)

    def _look_at_late(self, optimizer: Any) -> None:
        """Returns to the script's own way if the fused one cannot take a gradient that has just come."""
        come = [parameter for parameter in self.late if parameter.grad is not None]
        if not come:
            return
        if any(parameter.grad.is_sparse for parameter in come):
            because = "a sparse gradient came later"
        elif any(group.get("momentum") for group in optimizer.param_groups):
            because = "a parameter had its first gradient later than others"
        else:
            self.late = [parameter for parameter in self.late if parameter.grad is None]
            return
        self.late = []
        for settings, fused, foreach in self.was:
            settings["fused"], settings["foreach"] = fused, foreach
        self.way = None
        self.here.withdrawn(f"{type(optimizer).__name__} update", because, self.at)

    def _leave(self, optimizer: Any, because: str) -> None:
        self.here.left_alone(f"{type(optimizer).__name__} update", because, self.at)


def _parameters(optimizer: Any) -> List[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _settings(optimizer: Any) -> List[Dict[str, Any]]:
    """Where an optimizer keeps its settings: for each group, and for groups that are added later."""
    return [optimizer.defaults, *optimizer.param_groups]


def _home(optimizer: Any) -> str:
    """The module that defines the optimizer's step, below all wrappers."""
    step = type(optimizer).step
    while hasattr(step, "__wrapped__"):
        step = step.__wrapped__
    return str(step.__module__)


def _minds_late_gradients(optimizer: Any) -> bool:
    """Whether the fused way fails on a first gradient that comes later than others."""
    return _home(optimizer) in ("torch.optim.sgd", "torch.optim.adagrad")


def _unfit(torch: Any, optimizer: Any, active: List[Any]) -> Optional[str]:
    """The reason why this optimizer has to stay as it is, or None."""
    groups = optimizer.param_groups
    if not _home(optimizer).startswith("torch.optim."):
        return "it has its own step"
    if "foreach" not in groups[0]:
        return "torch has only one implementation for it"
    if any(group.get("fused") for group in groups):
        return "it is already fused"
    for name in SPECIAL:
        if any(group.get(name) for group in groups):
            return f"it is {name}"
    if any(parameter.grad.is_sparse for parameter in active):
        return "its gradients are sparse"
    if any(isinstance(group["lr"], torch.Tensor) for group in groups):
        return "its learning rate is a tensor"
    have_momentum = {"momentum_buffer" in optimizer.state.get(parameter, ()) for parameter in active}
    if len(have_momentum) > 1:
        return "some of its parameters have no momentum yet"
    return None


def _best(torch: Any, optimizer: Any, active: List[Any]) -> Optional[str]:
    """The fastest way that torch has for all of these tensors, if it is not the one taken."""
    if any(type(p).__name__ not in PLAIN or not torch.is_floating_point(p) for p in active):
        return None
    group = optimizer.param_groups[0]
    devices = {parameter.device.type for parameter in active}
    if "fused" in group and all(_has_kernel(torch, _home(optimizer), device) for device in devices):
        return "fused"
    small = sum(p.numel() * p.element_size() for p in active) <= SMALL_BYTES
    if way_of(group, active) == "for-loop" and (small or "cpu" not in devices):
        return "foreach"
    return None


def _has_kernel(torch: Any, home: str, device: str) -> bool:
    operation = f"aten::_fused_{home.rpartition('.')[2]}_"
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operation, device.upper()))


def _switch(torch: Any, optimizer: Any, way: str) -> None:
    """Sets what the constructor would have set for `way`."""
    for settings in _settings(optimizer):
        settings["foreach"] = True if way == "foreach" else None
        if way == "fused":
            settings["fused"] = True
    if way == "fused":  # which counts steps beside the parameters
        for parameter, state in optimizer.state.items():
            if isinstance(state.get("step"), torch.Tensor):
                state["step"] = state["step"].to(parameter.device, torch.float32)
