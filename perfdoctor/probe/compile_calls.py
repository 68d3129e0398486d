"""The calls by which a script has torch compile or export something."""

from __future__ import annotations

from typing import Any, Callable

from . import patch
from .on_import import on_import
from .wrapping import nothing

# By module: what is called on each way past `torch.compile`, as `torch._dynamo.explain` or `torch.export` go.
OTHERS = {"torch._dynamo.eval_frame": "OptimizeContext.__init__", "torch.export._trace": "_export"}


def before_compiling(torch: Any, name: str, before: patch.Before) -> None:
    """Call `before(args, kwargs)` whenever the script begins to compile. Stack samples show `name`."""
    patch.wrap(torch, "compile", before, nothing, name)
    for module, call in OTHERS.items():
        on_import(module, patch.guarded(name, _watching(call, name, before)))


def _watching(call: str, name: str, before: patch.Before) -> Callable[[Any], None]:
    def watch(module: Any) -> None:
        kind, _, attribute = call.rpartition(".")
        owner = getattr(module, kind) if kind else module
        patch.wrap(owner, attribute, before, nothing, name, method=bool(kind))

    return watch
