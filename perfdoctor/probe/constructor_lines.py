"""On which lines the script constructs modules and optimizers."""

from __future__ import annotations

import os
import sys
import weakref
from types import CodeType, FrameType, FunctionType
from typing import Any, Dict, Optional, Set, Tuple

from . import patch
from .by_identity import ByIdentity
from .user_frames import is_users, user_line
from .wrapping import Args, Kwargs, always, nothing

CodeLine = Tuple[CodeType, int]

LAYERS_MAX = 50_000  # layers whose lines are remembered; the largest language models have a few thousand


class ConstructorLines:
    """The constructors of one process. A step costs nothing here."""

    def __init__(self) -> None:
        self.layers: Dict[int, Tuple[weakref.ref[Any], CodeLine]] = {}  # by identity, which is used again
        self.optimizers: ByIdentity[Optional[Dict[str, Any]]] = ByIdentity()

    def before_layer(self, args: Args, kwargs: Kwargs) -> None:
        """Note the line that constructs a module; what copies it without its constructor leaves no line."""
        module = args[0]
        line = _constructing_line(module)
        if line is not None:
            if len(self.layers) >= LAYERS_MAX:
                self.layers.clear()
            self.layers[id(module)] = weakref.ref(module), line

    def after_optimizer(self, token: Any, args: Args, result: Any) -> None:
        """Note the line that constructs an optimizer."""
        self.optimizers[args[0]] = user_line()

    def line_of(self, root: Any, path: str) -> Optional[Dict[str, Any]]:
        """The line that constructed the module at `path` below `root`, or the nearest one around it."""
        modules = dict(root.named_modules()) if path else {"": root}
        while True:
            module = modules.get(path)
            reference, line = self.layers.get(id(module), (None, None))
            if line is not None and reference is not None and reference() is module:
                return _described(line)
            if not path:
                return None
            path = path.rpartition(".")[0]

    def line_of_weight(self, weight: Any) -> Optional[Dict[str, Any]]:
        """The line that constructed the module whose `weight` this is."""
        for reference, line in list(self.layers.values()):
            module = reference()
            if module is not None and vars(module).get("_parameters", {}).get("weight") is weight:
                return _described(line)
        return None


def watch(torch: Any) -> ConstructorLines:
    """Note lines from now on."""
    lines = ConstructorLines()
    patch.wrap(torch.nn.Module, "__init__", lines.before_layer, nothing, "layer", True)
    optimizer = torch.optim.Optimizer
    patch.wrap(optimizer, "__init__", always, lines.after_optimizer, "optimizer_built", True)
    return lines


def _constructing_line(module: Any) -> Optional[CodeLine]:
    """The innermost line of the user's that is not itself inside the module's constructor."""
    constructors = _constructors(type(module))
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if is_users(code.co_filename):
            if code not in constructors:
                return code, frame.f_lineno
            constructors.remove(code)  # where it comes again it constructs another module of this class
        frame = frame.f_back
    return None


def _constructors(kind: type) -> Set[CodeType]:
    """The code of `__init__` of a class and of those that it derives from, decorated or not.

    What a frame's first argument is would tell the same, but to read it changes what `locals()` returned.
    """
    found = set()
    for base in kind.__mro__:
        function = vars(base).get("__init__")
        while isinstance(function, FunctionType):
            found.add(function.__code__)
            function = vars(function).get("__wrapped__")
    return found


def _described(line: CodeLine) -> Dict[str, Any]:
    """As `line_of` tells a frame; the frame itself would keep all its locals alive."""
    code, number = line
    return {"file": os.path.abspath(code.co_filename), "line": number, "function": code.co_name}
