"""Update once every N batches.

## What changes
From the second update on, only every N-th call of `optimizer.step()` updates. In between, gradients are kept:
`zero_grad()` clears nothing, and clipping only measures. Each backward pass starts from 1/N, so that an
update uses the mean of N batches; the loss itself does not change. Learning rate schedules, and everything
else that counts calls, advance with each call: N steps of a schedule for each update.

## Left alone
- A script with several optimizers, as for a GAN, with a `GradScaler`, or with steps inside the backward
  pass.
- LBFGS, and closures of optimizers that are not torch's: these may call the closure several times.
- A script that clears gradients without an update, or other than by `zero_grad()`, from the moment it does;
  and one whose gradients do not come from `backward()`.

Batches after the last update of the run are lost.

## Same result
Another path: N times fewer updates, each from N times as many samples.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Tuple

from ..probe import patch
from ..probe.trial.tweak import PATH, Count, Tweaking, tweak
from ._scaling import BACKWARD_ARGUMENTS

WHAT = "optimizer.step"
BATCHES_MAX = 1024  # many datasets have fewer in an epoch: more would hardly ever update
MARK = "__perfdoctor_turns__"  # on a step that goes by turns
OUTSIDE_BACKWARD = -1  # what torch answers where no backward pass runs
CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_")  # their bound comes second


class Turns:
    """Decides for the one optimizer of a process which calls of step update."""

    def __init__(self, here: Tweaking, count: int) -> None:
        self.here = here
        self.torch = here.torch
        self.count = count
        self.optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.owned: Optional[FrozenSet[int]] = None  # identities of its parameters, once it has stepped
        self.off = False
        self.inside = False  # a step is under way
        self.call = count  # of step, from 1 to `count`: under way, or the last one
        self.kept = 0  # calls whose gradients wait for the update
        self.holds = False  # gradients that are made now wait as well
        self.fresh = False  # gradients were made since the last call
        self.witness: Optional[Tuple[Any, Any, int]] = None  # a parameter, its gradient, that one's version
        self.backward_pass = here.torch._C._current_graph_task_id

    @property
    def on(self) -> bool:
        """Whether calls are held back at all."""
        return self.owned is not None and not self.off

    def stop(self, because: str) -> None:
        """Leaves everything to the script from now on."""
        if not self.off:
            self.off = True
            self.holds = False
            tell = self.here.left_alone if self.owned is None else self.here.withdrawn
            tell(WHAT, because)

    # ------------------------------------------------------------ steps

    def made(self, optimizer: Any, result: Any) -> Any:
        """Called when an optimizer is built: steps of its class are held back from now on."""
        kind = type(optimizer)
        if hasattr(optimizer, "param_groups"):
            self.optimizers.add(optimizer)
            if not hasattr(kind.step, MARK):
                patch.replace(kind, "step", lambda step: _by_turns(self, step))
        return result

    def begin(self, optimizer: Any, closure: Any) -> Optional[bool]:
        """Whether this call of step is held back; None if the tweak does not handle it."""
        if self.off or self.inside:
            return None
        because = self._unfit(optimizer, closure)
        if because is not None:
            self.stop(because)
            return None
        if self.owned is not None:
            self.call = self.call % self.count + 1
        self.inside = True
        self.holds = self.call < self.count
        return self.holds

    def end(self, optimizer: Any) -> None:
        """Called when a call of step has ended, held back or not."""
        self.inside = False
        if self.owned is None:
            self.owned = frozenset(id(parameter) for parameter in _parameters(optimizer))
            self.here.applied(WHAT, "each call updates", f"one in {self.count} calls")
        if self.holds and not self.fresh:
            self.stop("its gradients do not come from backward()")
        self.fresh = False
        self.kept = self.call % self.count
        self.holds = self.kept + 1 < self.count and not self.off
        self.witness = None
        for parameter in _parameters(optimizer) if self.kept else ():
            if parameter.grad is not None:
                self.witness = parameter, parameter.grad, parameter.grad._version
                return

    def _unfit(self, optimizer: Any, closure: Any) -> Optional[str]:
        if len(self.optimizers) > 1:
            return "there are several optimizers"
        if self.backward_pass() != OUTSIDE_BACKWARD:
            return "it updates inside the backward pass"
        if isinstance(optimizer, self.torch.optim.LBFGS):
            return "it calls its closure several times"
        if closure is not None and not type(optimizer).__module__.startswith("torch.optim."):
            return "its closure may be called several times"
        return None

    # ------------------------------------------------------------ gradients

    def before_clearing(self, args: Any, kwargs: Any) -> Any:
        """Called before any `zero_grad`: sets aside gradients that wait for the update."""
        if not self.on:
            return None
        cleared = args[0]
        every = cleared.parameters() if isinstance(cleared, self.torch.nn.Module) else _parameters(cleared)
        parameters = [parameter for parameter in every if id(parameter) in (self.owned or ())]
        if not parameters:
            return None
        if self.fresh:
            self.stop("gradients are cleared without an update")
        if self.off or not self.kept:
            return None
        return args[:1], {"set_to_none": True}, [(parameter, parameter.grad) for parameter in parameters]

    def after_clearing(self, kept: List[Tuple[Any, Any]], result: Any) -> Any:
        """Puts those gradients back."""
        for parameter, gradient in kept:
            parameter.grad = gradient
        return result

    def before_backward(self, args: Any, kwargs: Any) -> Any:
        """Starts the backward pass from 1/N."""
        if not self.on or self.backward_pass() != OUTSIDE_BACKWARD:
            return None
        given: Dict[str, Any] = {**dict(zip(BACKWARD_ARGUMENTS, args)), **kwargs}
        inputs = given.get("inputs")
        if inputs is not None and not any(id(leaf) in (self.owned or ()) for leaf in self._listed(inputs)):
            return None
        if self.witness is not None and not self.fresh:
            parameter, gradient, version = self.witness
            if parameter.grad is not gradient or gradient._version != version:
                self.stop("the script clears gradients itself")
                return None
        self.fresh = True
        outputs = self._listed(given["tensors"])
        seeds = given.get("grad_tensors")
        first = [None] * len(outputs) if seeds is None else self._listed(seeds)
        if len(first) != len(outputs):
            return None  # torch is about to refuse
        scaled = [self._scaled(output, seed) for output, seed in zip(outputs, first)]
        return (), {**given, "grad_tensors": scaled}, None

    def _scaled(self, output: Any, seed: Any) -> Any:
        if seed is not None:
            return seed / self.count
        return self.torch.full_like(output, 1 / self.count) if output.numel() == 1 else None

    def _listed(self, tensors: Any) -> List[Any]:
        return [tensors] if isinstance(tensors, self.torch.Tensor) else list(tensors)

    def before_clipping(self, args: Any, kwargs: Any) -> Any:
        """Only the mean of all N batches is clipped: without a bound, norms are measured, no more."""
        if not self.on or not self.holds:
            return None
        if len(args) > 1:
            return (args[0], float("inf"), *args[2:]), kwargs, None
        bound = "clip_value" if "clip_value" in kwargs else "max_norm"
        return args, {**kwargs, bound: float("inf")}, None

    def before_scale(self, args: Any, kwargs: Any) -> None:
        """Called when a GradScaler multiplies a loss: stops."""
        if args[0].is_enabled():
            self.stop("a GradScaler scales gradients for each step")


def _parameters(optimizer: Any) -> List[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _by_turns(turns: Turns, step: Callable[..., Any]) -> Callable[..., Any]:
    """An optimizer's `step`, with torch's hooks around it, that is not made where it is held."""
    begin, end = turns.here.guarded(turns.begin), turns.here.guarded(turns.end)
    enable_grad = turns.torch.enable_grad

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        closure = args[0] if args else kwargs.get("closure")
        held = begin(self, closure)
        try:
            if not held:
                return step(self, *args, **kwargs)
            if closure is None:
                return None
            with enable_grad():  # as torch's optimizers call it
                return closure()
        except BaseException as error:
            patch.cut(error)
            raise
        finally:
            if held is not None:
                end(self)

    functools.update_wrapper(wrapper, step)
    setattr(wrapper, MARK, True)
    return wrapper


@tweak("--accumulate", PATH, Count(2, BATCHES_MAX), samples=lambda count, batch: count, waits=1)
def accumulate(here: Tweaking, count: int) -> None:
    """Let `count` calls of step make one update."""
    torch = here.torch
    turns = Turns(here, count)

    def before_init(args: Any, kwargs: Any) -> Any:
        return args, kwargs, args[0]

    here.alter(torch.optim.Optimizer, "__init__", before_init, turns.made)
    for owner in (torch.optim.Optimizer, torch.nn.Module):
        here.alter(owner, "zero_grad", turns.before_clearing, turns.after_clearing)
    here.alter(torch.autograd, "backward", turns.before_backward)
    for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
        for name in CLIPPING:
            if hasattr(owner, name):
                here.alter(owner, name, turns.before_clipping)
    here.alter(torch.amp.grad_scaler.GradScaler, "scale", turns.before_scale)
