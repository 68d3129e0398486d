"""Finds the tips by looking into their folder, and reads what a tip needs off its signature."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from perfdoctor.facts.annotations import types_of
from perfdoctor.model.change import Effort
from perfdoctor.model.checked import Checked
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.tip import Judge, Planned, Tip, TipHeading
from perfdoctor.tips._planned import PLANNED

__all__ = ["Checked", "planned", "tip", "tips"]


def tip(
    *,
    title: str,
    bottleneck: Bottleneck,
    effort: Effort,
    applies: tuple[str, ...] = ("cpu", "gpu"),
    saves: tuple[str, ...] = ("time",),
    checked: Checked = Checked.FACTS,
    checked_on_device: Checked | None = None,
    general: bool = False,
    rivals: tuple[str, ...] = (),
    kernels_only: bool = False,
    before: tuple[str, ...] = (),
) -> Callable[[Judge], Judge]:
    """Mark the one function of a tip's file that judges facts: it returns Advice, or None to stay silent."""

    def mark(judge: Judge) -> Judge:
        heading = TipHeading(
            title,
            bottleneck,
            effort,
            applies,
            saves,
            checked,
            checked_on_device,
            general,
            rivals,
            kernels_only,
            before,
        )
        judge.__tip__ = heading  # type: ignore[attr-defined]
        return judge

    return mark


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
