"""Finds the tweaks by looking into their folder."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from types import ModuleType

from perfdoctor import tweaks as package
from perfdoctor.model.tweak import Tweak

RESULTS = package.RESULTS  # what a tweak may do to the result of training, and what that means


def tweaks() -> list[Tweak]:
    """Every tweak under `perfdoctor/tweaks/`, by id; the id is the file's name with dashes."""
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__))
    return [_described(name) for name in names if not name.startswith("_")]  # those are what tweaks share


@cache
def declared(tweak_id: str) -> package.Declared:
    """What the tweak with this id says of itself."""
    return package.declaration(_module(tweak_id.replace("-", "_")))


def _described(name: str) -> Tweak:
    doc = inspect.getdoc(_module(name)) or ""
    title = doc.partition("\n")[0].rstrip(".")
    tweak_id = name.replace("_", "-")
    declaration = declared(tweak_id)
    return Tweak(
        tweak_id, title, declaration.flag, declaration.result, declaration.takes, declaration.extras, doc
    )


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{package.__name__}.{name}")
