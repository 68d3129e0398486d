"""Examples of every group of facts, found by looking into this folder.

A file holds `HEALTHY`, groups by type of a run on which no tip has anything to say, and `odd()`, a strategy that draws
the same groups however odd a run may be.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType
from typing import Any

import pytest

BASE = "run"  # the file whose groups go with those of every other


@cache
def modules() -> dict[str, ModuleType]:
    """The files of this folder by name."""
    names = [info.name for info in pkgutil.iter_modules(__path__)]
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}


def healthy(kind: type) -> Any:
    """The group of that type in a healthy run."""
    groups = (module.HEALTHY[kind] for module in modules().values() if kind in module.HEALTHY)
    return next(groups, None) or pytest.fail(f"add a file with a healthy {kind.__name__} to {__path__[0]}")


def odd(draw: Any, needs: set[type]) -> dict[type, Any]:
    """Groups of any run, those that are needed among them: drawing all takes minutes."""
    drawn: dict[type, Any] = draw(modules()[BASE].odd())
    for name, module in modules().items():
        if name != BASE and needs & module.HEALTHY.keys():
            drawn = draw(module.odd()) | drawn
    for kind in needs - drawn.keys():
        pytest.fail(f"no example of {kind.__name__}: add a file with HEALTHY and odd() to {__path__[0]}")
    return drawn
