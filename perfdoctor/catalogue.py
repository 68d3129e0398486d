"""Tips and tweaks are found by looking into their folders; a tip's needs are read off its signature."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perfdoctor.change import Effort
from perfdoctor.model import Advice, Bottleneck

Judge = Callable[..., "Advice | None"]

APPLIES = ("cpu", "gpu", "convolutional", "distributed")  # what a tip may say it is for
SAVES = ("time", "memory")


@dataclass(frozen=True)
class Heading:
    """What a tip says of itself."""

    title: str
    bottleneck: Bottleneck
    effort: Effort
    applies: tuple[str, ...]
    saves: tuple[str, ...]


@dataclass(frozen=True)
class Tip:
    """One entry of the catalogue. `needs` maps the judge's parameters to the fact groups they take."""

    id: str
    heading: Heading
    judge: Judge
    needs: dict[str, type]
    doc: str

    @property
    def title(self) -> str:
        """The change in one line, as an imperative."""
        return self.heading.title

    @property
    def bottleneck(self) -> Bottleneck:
        """The class of the time that the change takes away."""
        return self.heading.bottleneck


def tip(
    *,
    title: str,
    bottleneck: Bottleneck,
    effort: Effort,
    applies: tuple[str, ...] = ("cpu", "gpu"),
    saves: tuple[str, ...] = ("time",),
) -> Callable[[Judge], Judge]:
    """Mark the one function of a tip's file that looks at facts and returns Advice or None."""

    def mark(judge: Judge) -> Judge:
        judge.__tip__ = Heading(title, bottleneck, effort, applies, saves)  # type: ignore[attr-defined]
        return judge

    return mark


def tips() -> list[Tip]:
    """Every tip under `perfdoctor/tips/`, by id; the id is the file's name with dashes."""
    package = importlib.import_module("perfdoctor.tips")
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__))
    return [
        _read(importlib.import_module(f"perfdoctor.tips.{name}"))
        for name in names
        if not name.startswith("_")
    ]


def _read(module: Any) -> Tip:
    name = module.__name__.rpartition(".")[2]
    judges = [
        value
        for value in vars(module).values()
        if hasattr(value, "__tip__") and value.__module__ == module.__name__
    ]
    if len(judges) != 1:
        raise TypeError(f"{module.__name__} needs exactly one function marked with @tip, found {len(judges)}")
    hints = typing.get_type_hints(judges[0])
    needs = {parameter: hints[parameter] for parameter in inspect.signature(judges[0]).parameters}
    return Tip(name.replace("_", "-"), judges[0].__tip__, judges[0], needs, inspect.getdoc(module) or "")
