"""Finds the tips by looking into their folder, and reads what a tip needs off its signature."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, ParamSpec

from perfdoctor.facts.annotations import types_of
from perfdoctor.model.checked import Checked
from perfdoctor.model.tip import Judge, Planned, Tip, TipHeading
from perfdoctor.tips._planned import PLANNED

__all__ = ["Checked", "planned", "tip", "tips"]


Words = ParamSpec("Words")


def _marking(heading: Callable[Words, TipHeading]) -> Callable[Words, Callable[[Judge], Judge]]:
    """A decorator that takes what a heading takes."""

    def marked(*args: Words.args, **words: Words.kwargs) -> Callable[[Judge], Judge]:
        said = heading(*args, **words)

        def mark(judge: Judge) -> Judge:
            judge.__tip__ = said  # type: ignore[attr-defined]
            return judge

        return mark

    return marked


# Marks the one function of a tip's file that judges facts: it returns Advice, or None to stay silent.
tip = _marking(TipHeading)


def tips() -> list[Tip]:
    """Every tip under `perfdoctor/tips/`, by id; the id is the file's name with dashes."""
    package = importlib.import_module("perfdoctor.tips")
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__))
    return [
        _read(importlib.import_module(f"perfdoctor.tips.{name}"))
        for name in names
        if not name.startswith("_") and name != "catalogue"
    ]


def planned() -> dict[str, Planned]:
    """Tips that are owed and not there yet, by id."""
    return dict(sorted(PLANNED.items()))


def _read(module: Any) -> Tip:
    name = module.__name__.rpartition(".")[2]
    judges = [
        value
        for value in vars(module).values()
        if hasattr(value, "__tip__") and value.__module__ == module.__name__
    ]
    if len(judges) != 1:
        raise TypeError(f"{module.__name__} needs exactly one function marked with @tip, found {len(judges)}")
    needs = types_of(judges[0])
    del needs["return"]
    return Tip(name.replace("_", "-"), judges[0].__tip__, judges[0], needs, (module.__doc__ or "").strip())
