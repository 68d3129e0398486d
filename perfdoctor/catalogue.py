"""Tips and tweaks are found by looking into their folders; a tip's needs are read off its signature."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from perfdoctor.change import Effort
from perfdoctor.model import Advice, Bottleneck

Judge = Callable[..., "Advice | None"]


class Checked(str, Enum):
    """What a tip was held against, beyond facts made up by its author."""

    SCRIPTS = "found in training scripts with its cause planted, and the cure's gain measured"
    TRACES = "judged on recorded traces of real devices; its gain was not measured"
    FACTS = "tested on hand-made facts only"


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
    checked: Checked = Checked.FACTS
    rivals: tuple[str, ...] = ()  # ids of tips that serve the same end, or would undo this one


@dataclass(frozen=True)
class Planned:
    """A tip that is owed and not there yet."""

    title: str
    bottleneck: Bottleneck
    because: str  # what is missing


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
    checked: Checked = Checked.FACTS,
    rivals: tuple[str, ...] = (),
) -> Callable[[Judge], Judge]:
    """Mark the one function of a tip's file that looks at facts and returns Advice or None."""

    def mark(judge: Judge) -> Judge:
        heading = Heading(title, bottleneck, effort, applies, saves, checked, rivals)
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
        if not name.startswith("_")
    ]


def planned() -> dict[str, Planned]:
    """Tips that are owed and not there yet, by id."""
    table: dict[str, Planned] = importlib.import_module("perfdoctor.tips._planned").PLANNED
    return dict(sorted(table.items()))


@dataclass(frozen=True)
class Tweak:
    """One change that can be applied inside the user's process. `takes` and each of `extras` read a word."""

    id: str
    title: str
    flag: str
    result: str  # bit for bit, within rounding, another path
    takes: Any  # None: the flag alone
    extras: dict[str, Any]  # further flags that go with it
    doc: str


def tweaks() -> list[Tweak]:
    """Every tweak under `perfdoctor/tweaks/`, by id; the id is the file's name with dashes."""
    package = importlib.import_module("perfdoctor.tweaks")
    read = importlib.import_module("perfdoctor.probe.tweak").function_of
    found = []
    for name in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        if name.startswith("_"):
            continue  # what several tweaks share
        module = importlib.import_module(f"perfdoctor.tweaks.{name}")
        said = read(module).__tweak__
        doc = inspect.getdoc(module) or ""
        title = doc.partition("\n")[0].rstrip(".")
        found.append(
            Tweak(name.replace("_", "-"), title, said.flag, said.result, said.takes, said.extras, doc)
        )
    return found


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
