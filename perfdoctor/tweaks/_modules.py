"""The outermost calls of modules, for all tweaks that act there, and the tensors that go in and come out."""

from __future__ import annotations

import copy
import weakref
from _thread import get_ident
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from ..probe.trial.tweak import Tweaking
from ..probe.user_frames import LIBRARIES, library_between, making_line
from ..probe.wrapping import Args, Kwargs

Before = Callable[[Any, Args, Kwargs], Optional[Tuple[Args, Kwargs, Any]]]
After = Callable[[Any, Any], Any]

MARK = "__perfdoctor_roots__"  # on the wrapper of nn.Module.__call__
TRANSFORMERS = LIBRARIES[0]  # whose Trainer is told by an argument what is done to its model
OUTSIDE_BACKWARD = -1  # what torch answers where no backward pass runs


def on_root_calls(
    here: Tweaking, before: Before, after: Optional[After] = None, outermost: bool = False
) -> None:
    """Act on each outermost call of a module that has parameters, with what DistributedDataParallel wraps.

    `before(module, args, kwargs)` returns None to leave the call alone, or (args, kwargs, token) to call
    with; `after(token, result)` returns the result to hand on, and sees None where the call raised.
    `outermost`: around the other tweaks, whatever the order of the command line.
    """
    call = here.torch.nn.Module.__call__
    if not hasattr(call, MARK):
        roots = _Roots(here.torch)
        here.alter(here.torch.nn.Module, "__call__", roots.before, roots.after, method=True)
        call = here.torch.nn.Module.__call__
        setattr(call, MARK, roots)
    stages = getattr(call, MARK).stages
    stage = here.guarded(before), None if after is None else here.guarded(after)
    stages.insert(0 if outermost else len(stages), stage)


def before_ddp(here: Tweaking, change: Callable[[Any], object]) -> None:
    """Call `change(module)` before DistributedDataParallel reads a module's parameters."""

    def before(args: Args, kwargs: Kwargs) -> None:
        change(args[1] if len(args) > 1 else kwargs["module"])

    here.alter(here.torch.nn.parallel.DistributedDataParallel, "__init__", before)


class Makers:
    """Which of the user's lines made each module, from now on."""

    def __init__(self, here: Tweaking) -> None:
        # by id: a class may have a hash of its own, of attributes that its constructor has yet to set
        self._made: Dict[int, Tuple[weakref.ref[Any], Optional[Dict[str, Any]]]] = {}
        here.alter(here.torch.nn.Module, "__init__", self._before, method=True)

    def _before(self, args: Args, kwargs: Kwargs) -> None:
        module = args[0]
        known = self._made.get(id(module))
        if known is None or known[0]() is not module:  # constructors call those of their bases
            self._made[id(module)] = weakref.ref(module), making_line(module)

    def line(self, module: Any) -> Optional[Dict[str, Any]]:
        """The line that made a module, and no other than its parts and what it is a part of.

        None where it is not known, and where transformers' Trainer calls the module: then the line of the
        call tells more.
        """
        module = getattr(module, "_orig_mod", module)
        line = next((at for ref, at in self._made.values() if ref() is module), None)
        if line is None or library_between() == TRANSFORMERS:
            return None
        beside = (other for ref, at in self._made.values() if at == line and (other := ref()) is not None)
        return line if all(_holds(module, other) or _holds(other, module) for other in beside) else None


def _holds(module: Any, part: Any) -> bool:
    return any(each is part for each in module.modules())


def name_of(module: Any) -> str:
    """The name that the user knows: that of its class, not of torch.compile's wrapper."""
    return type(getattr(module, "_orig_mod", module)).__name__


def is_lazy(torch: Any, module: Any) -> bool:
    """Whether parameters still wait for the first input to get their shapes."""
    return any(torch.nn.parameter.is_lazy(parameter) for parameter in module.parameters())


class _Roots:
    """One wrapper for all tweaks: the calls of a model's parts pass it hundreds of times a step."""

    def __init__(self, torch: Any) -> None:
        self.stages: List[Tuple[Before, Optional[After]]] = []
        self.inside: Set[int] = set()  # threads in an outermost call
        self.is_tracing = torch.jit.is_tracing
        self.backward_pass = torch._C._current_graph_task_id
        self.ddp = torch.nn.parallel.DistributedDataParallel

    def before(self, args: Args, kwargs: Kwargs) -> Any:
        """Lets every tweak change the inputs."""
        thread = get_ident()
        if thread in self.inside or self.is_tracing():
            return None
        if self.backward_pass() != OUTSIDE_BACKWARD:
            return None  # a checkpoint calls a part again, with what was set when it was first called
        called, args = args[0], args[1:]
        module = called.module if isinstance(called, self.ddp) else called
        if next(module.parameters(), None) is None:
            return None
        self.inside.add(thread)
        undo = []
        for before, after in self.stages:
            changed = before(module, args, kwargs)
            if changed is not None:
                args, kwargs, token = changed
                if after is not None:
                    undo.append((after, token))
        return (called, *args), kwargs, (thread, undo)

    def after(self, token: Any, result: Any) -> Any:
        """Lets every tweak change the outputs, the innermost first."""
        thread, undo = token
        self.inside.discard(thread)
        for after, given in reversed(undo):
            changed = after(given, result)
            result = result if changed is None else changed  # None: it turned itself off
        return result


def mapped(torch: Any, value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with `change(tensor)` for each tensor inside; containers keep their type, copied if changed.

    Looks into lists, tuples, dicts and dataclasses, such as the outputs of transformers, and at the
    attributes of objects of other classes, such as a script's own.
    """
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return _changed(torch, value, list(value.items()), change, _set_item)
    if isinstance(value, list):
        return _changed(torch, value, list(enumerate(value)), change, _set_item)
    if isinstance(value, tuple):
        items = [mapped(torch, item, change) for item in value]
        if all(new is old for new, old in zip(items, value)):
            return value
        kind = type(value)
        return kind._make(items) if hasattr(kind, "_make") else kind(items)
    if hasattr(type(value), "__dataclass_fields__"):
        return _changed(torch, value, list(vars(value).items()), change, object.__setattr__)
    if _is_plain(torch, value):
        held = {
            name: item
            for name, item in vars(value).items()
            if isinstance(item, (torch.Tensor, dict, list, tuple))
        }
        return _changed(torch, value, list(held.items()), change, object.__setattr__)
    return value


def _is_plain(torch: Any, value: Any) -> bool:
    """Whether an object does no more than hold what a model returns."""
    odd = (type, torch.nn.Module, torch.optim.Optimizer, torch.distributions.Distribution)
    return hasattr(value, "__dict__") and not callable(value) and not isinstance(value, odd)


def _changed(
    torch: Any,
    value: Any,
    items: List[Tuple[Any, Any]],
    change: Callable[[Any], Any],
    put: Callable[[Any, Any, Any], None],
) -> Any:
    """`value`, or a copy where an item changed."""
    twin = value
    for key, item in items:
        new = mapped(torch, item, change)
        if new is not item:
            twin = copy.copy(value) if twin is value else twin
            put(twin, key, new)
    return twin


def _set_item(container: Any, key: Any, value: Any) -> None:
    container[key] = value
