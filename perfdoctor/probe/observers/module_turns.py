"""Modules that a step calls many times, and the lines that lead to those calls.

A loop that feeds items one by one calls the same module again and again; a batch of all items calls it once.
"""

from __future__ import annotations

from typing import Any, Dict, List, Set, Tuple

from ...wire.events.module_turns import ModuleTurnsEvent
from ..observer import Watch, observer
from ..patch import guarded
from ..user_frames import user_lines
from ..wrapping import Args, Kwargs

NAME = "module_turns"
MANY = 16  # calls of one module in a step: layers are shared, and scales have their turns, in smaller numbers
TOLD_MAX = 20  # ways that lead to modules


class CountedModule:
    """The calls of one module that went into gradients."""

    __slots__ = ("calls", "host", "lines", "name", "products", "weights", "width")

    def __init__(self, name: str, module: Any) -> None:
        self.name = name
        own = [one for one in module._parameters.values() if one is not None]
        self.weights = sum(one.numel() for one in own if one.dim() > 1)
        # Numbers that one place of the result has; recurrent layers make several gates for each.
        width = vars(module).get("hidden_size", own[0].shape[0] if self.weights and own[0].dim() else 1)
        self.width = max(1, width) if isinstance(width, int) else 1
        self.calls = 0
        self.products = 0  # of numbers, with its own weights
        self.host = True  # the CPU computes it
        self.lines: List[Dict[str, Any]] = []

    def add(self, tensor: Any) -> None:
        """One more call, and what came out."""
        self.calls += 1
        if self.weights and tensor is not None:
            self.products += tensor.numel() // self.width * self.weights
            self.host = self.host and tensor.is_cpu


class ModuleTurns:
    """The modules of one sampled step."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.modules: Dict[int, CountedModule] = {}
        self.called = guarded(NAME, self._called)
        self.returned = guarded(NAME, self._returned)
        self.ended = guarded(NAME, self._ended)

    def _called(self, call: Any, args: Args, kwargs: Kwargs) -> None:
        """A call begins."""

    def _returned(self, call: Any, result: Any) -> None:
        """A call has ended: where it was made is asked once, for asking costs more than counting."""
        module = call.module
        if module is None or not call.recording:
            return
        turns = self.modules.get(id(module))
        if turns is None:
            turns = self.modules[id(module)] = CountedModule(call.module_type, module)
        while type(result) is tuple and result:
            result = result[0]
        turns.add(result if type(result) is self.watch.torch.Tensor else None)
        if turns.calls == MANY:
            turns.lines = user_lines()

    def _ended(self, look: int, seconds: float) -> None:
        """Write down what was called often, by the lines that lead there, the most modules first."""
        ways: Dict[str, Tuple[List[CountedModule], Set[str]]] = {}
        for turns in self.modules.values():
            if turns.lines:
                same, names = ways.setdefault(str(turns.lines), ([], set()))
                same.append(turns)
                names.add(turns.name)
        self.modules = {}
        most = sorted(ways.values(), key=lambda way: -sum(turns.calls for turns in way[0]))
        for same, names in most[:TOLD_MAX]:
            self.watch.write(
                ModuleTurnsEvent(
                    look=look,
                    turns=max(turns.calls for turns in same),
                    calls=sum(turns.calls for turns in same),
                    products=sum(turns.products for turns in same),
                    host=all(turns.host for turns in same),
                    names=sorted(names)[:3],
                    lines=same[0].lines,
                )
            )


@observer
def module_turns(watch: Watch) -> None:
    """Count the calls of each module in sampled steps."""
    watch.on_sampled_steps(ModuleTurns(watch))
