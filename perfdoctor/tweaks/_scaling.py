"""Loss scaling around unchanged code: gradients are multiplied only while a backward pass runs.

A backward pass starts from the scale instead of 1, and gradients of earlier passes are multiplied as well;
when it ends, all are divided again. So clipping, logging, accumulation and optimizers see true gradients, and
the loss never changes. The scale is a power of two: both directions are exact.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from ..probe import patch
from ..probe.trial.tweak import Tweaking
from ..probe.wrapping import Args, Kwargs

Withheld = List[Tuple[Any, Any]]  # parameters, and the gradients they do not have for the time of a step

# The defaults of torch.amp.GradScaler, by its documentation.
INITIAL_SCALE = 2.0**16
GROWTH = 2.0
BACKOFF = 0.5
GROWTH_STEPS = 2_000
LEAST_SCALE = 2.0**-24  # of float16's own numbers the smallest: what still overflows is not the scale's doing
BACKWARD_ARGUMENTS = (
    "tensors",
    "grad_tensors",
    "retain_graph",
    "create_graph",
    "grad_variables",
    "inputs",
)


class Scaling:
    """Does what `GradScaler` does by hand, for all backward passes and optimizers of a process."""

    def __init__(self, here: Tweaking) -> None:
        self.here = here
        self.torch = here.torch
        self.scale = INITIAL_SCALE  # of the next backward pass
        self.factor = INITIAL_SCALE  # of the one that runs
        self.good_steps = 0  # since the scale last changed
        self.theirs = False  # the script scales by itself
        self.modules: weakref.WeakKeyDictionary[Any, List[Any]] = weakref.WeakKeyDictionary()
        self.optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.inputs: List[Any] = []  # references to leaves that went into a module
        self.open = False  # a scaled backward pass runs
        self.divided: Set[int] = set()  # parameters whose gradients are true again before it ends
        self.suspects: List[Any] = []  # per device, of the last pass: 1 where a gradient was not finite
        self.backed_off = False  # the scale has answered to the last pass
        self.steps: List[Tuple[Any, Withheld]] = []  # that are open
        self.backward_pass = here.torch._C._current_graph_task_id

    def install(self) -> None:
        """Put the hooks into torch."""
        import torch.optim.optimizer as optimizers

        torch, here = self.torch, self.here
        here.alter(torch.autograd, "backward", self.before_backward, self.after_backward)
        here.alter(torch.optim.Optimizer, "__init__", self.optimizer_made)
        here.alter(torch.amp.GradScaler, "scale", self.scaled_by_script)
        optimizers.register_optimizer_step_pre_hook(patch.optimizer_hook(here.name, self.before_step))
        optimizers.register_optimizer_step_post_hook(patch.optimizer_hook(here.name, self.after_step))

    def cover(self, module: Any, args: Args) -> None:
        """`module` computes in float16: scale what comes back through it."""
        if module not in self.modules:
            self.modules[module] = list(module.parameters())
        self.inputs = [kept for kept in self.inputs if kept() is not None]
        self.inputs += [weakref.ref(value) for value in args if self._is_leaf(value)]

    def optimizer_made(self, args: Args, kwargs: Kwargs) -> None:
        """Remember an optimizer: the gradients of its parameters are to be divided."""
        self.optimizers.add(args[0])

    def scaled_by_script(self, args: Args, kwargs: Kwargs) -> None:
        """Stops where the script has its own scaler."""
        if not self.theirs and args[0].is_enabled():
            self.theirs = True
            self.here.left_alone("loss scaling", "the script's own GradScaler scales the loss")

    # ------------------------------------------------------------ backward

    def before_backward(self, args: Args, kwargs: Kwargs) -> Any:
        """Start an outermost backward pass from the scale."""
        if self.theirs or not self.modules or self.open or self.backward_pass() != -1:
            return None
        given = {**dict(zip(BACKWARD_ARGUMENTS, args)), **kwargs}
        if given.get("create_graph"):
            self.here.left_alone("loss scaling", "backward(create_graph=True) uses the gradients")
            return None
        seeds = self._seeds(given["tensors"], given.pop("grad_tensors", None))
        if seeds is None:
            return None
        named = [leaf for leaf in self._listed(given.get("inputs")) if self._is_leaf(leaf)]
        self.open, self.backed_off, self.factor = True, False, self.scale
        self.divided.clear()
        self._multiply(self._leaves(named))
        return (), {**given, "grad_tensors": seeds}, named

    def after_backward(self, named: List[Any], result: Any) -> Any:
        """Divides all gradients again."""
        self.open = False
        self.suspects = self._divide(self._leaves(named))
        if self.steps:  # a closure's pass: the step has begun already
            self._withhold(*self.steps[-1])
        return result

    def _seeds(self, tensors: Any, given: Any) -> Optional[List[Any]]:
        """The gradients that the pass starts from; None where torch is about to refuse them."""
        outputs = self._listed(tensors)
        first = self._listed(given) if given is not None else [None] * len(outputs)
        if len(first) != len(outputs):
            return None
        seeds = []
        for output, seed in zip(outputs, first):
            if not isinstance(output, self.torch.Tensor) or (seed is None and output.numel() != 1):
                return None
            seeds.append(self.torch.full_like(output, self.scale) if seed is None else seed * self.scale)
        return seeds

    def _listed(self, tensors: Any) -> List[Any]:
        if tensors is None:
            return []
        return [tensors] if isinstance(tensors, self.torch.Tensor) else list(tensors)

    # ------------------------------------------------------------ gradients

    def _is_leaf(self, tensor: Any) -> bool:
        return isinstance(tensor, self.torch.Tensor) and tensor.is_leaf and tensor.requires_grad

    def _leaves(self, named: Iterable[Any]) -> Iterator[Any]:
        """All tensors that a pass may leave a gradient in; some occur twice."""
        for optimizer in list(self.optimizers):
            yield from _of(optimizer)
        for parameters in list(self.modules.values()):
            yield from parameters
        yield from (leaf for leaf in (kept() for kept in self.inputs) if leaf is not None)
        yield from named

    def _gradients(self, leaves: Iterable[Any]) -> List[List[Any]]:
        """Their gradients, by device and type, without those that are divided already."""
        groups: Dict[Any, List[Any]] = {}
        seen = set(self.divided)
        for leaf in leaves:
            gradient = leaf.grad
            if gradient is not None and id(leaf) not in seen:
                seen.add(id(leaf))
                gradient = gradient.data  # not counted as a change of the script's: `_version` stays
                gradient = gradient._values() if gradient.is_sparse else gradient
                groups.setdefault((gradient.device, gradient.dtype), []).append(gradient)
        return list(groups.values())

    def _multiply(self, leaves: Iterable[Any]) -> None:
        """Multiplies the gradients of earlier passes by the scale of the coming one."""
        for gradients in self._gradients(leaves):
            self.torch._foreach_mul_(gradients, self.factor)

    def _divide(self, leaves: Iterable[Any]) -> List[Any]:
        """Divide in place; a tensor for each group that is 1 where a gradient is not finite."""
        torch = self.torch
        found = []
        for gradients in self._gradients(leaves):
            device = gradients[0].device
            found.append(torch.zeros((), device=device))
            inverse = torch.full((), 1.0 / self.factor, device=device)
            torch._amp_foreach_non_finite_check_and_unscale_(gradients, found[-1], inverse)
        return found

    # ------------------------------------------------------------ optimizers

    def before_step(self, optimizer: Any) -> None:
        """Removes gradients if one is not finite: without any, an optimizer changes nothing."""
        if self.theirs or not self.modules:
            return
        self.optimizers.add(optimizer)
        # A step of it that is still open was left by an error.
        self.steps = [step for step in self.steps if step[0] is not optimizer]
        if self.open:  # a step inside the backward pass
            parameters = list(_of(optimizer))
            self.suspects = self._divide(parameters)
            self.divided.update(id(parameter) for parameter in parameters)
        self.steps.append((optimizer, []))
        self._withhold(*self.steps[-1])

    def _withhold(self, optimizer: Any, withheld: Withheld) -> None:
        if not any(found.item() for found in self.suspects):
            return
        parameters = [parameter for parameter in _of(optimizer) if parameter.grad is not None]
        if all(self._is_finite(parameter.grad) for parameter in parameters):
            return  # those of another optimizer
        for parameter in parameters:
            withheld.append((parameter, parameter.grad))
            parameter.grad = None

    def _is_finite(self, gradient: Any) -> bool:
        values = gradient._values() if gradient.is_sparse else gradient
        return bool(self.torch.isfinite(values).all())

    def after_step(self, optimizer: Any) -> None:
        """Puts removed gradients back, and adapts the scale."""
        if not self.steps or self.steps[-1][0] is not optimizer:
            return
        withheld = self.steps.pop()[1]
        for parameter, gradient in withheld:
            if parameter.grad is None:
                parameter.grad = gradient
        if not withheld:
            self.good_steps += 1
            if self.good_steps >= GROWTH_STEPS:
                self._adapt(GROWTH)
        elif not self.backed_off:
            self.backed_off = True
            self._adapt(BACKOFF)

    def _adapt(self, change: float) -> None:
        self.good_steps = 0
        self.scale = max(self.scale * change, LEAST_SCALE)


def _of(optimizer: Any) -> Iterator[Any]:
    """The parameters of an optimizer, none yet where its constructor still runs."""
    for group in getattr(optimizer, "param_groups", ()):
        yield from group["params"]
