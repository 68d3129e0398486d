"""What a tweak declares, and what is handed to it in the user's process.

A tweak is one file in `tweaks/` with one function marked by `@tweak`. The command line loads it for its help,
the user's interpreter loads it to act: the function is called once, right after torch was imported, with a
`Tweaking` and its value. It replaces what it has to, and tells each place where it changed something and each
that it left alone.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from . import patch
from .imports import on_import
from .session import Session
from .where import user_line

# What a tweak does to the result of training, as it declares it.
BITWISE = "bit for bit"  # the same losses to the last bit
ROUNDING = "within rounding"  # the same mathematics in another order or precision
PATH = "another path"  # another optimisation: other updates, or other data in them
RESULTS = (BITWISE, ROUNDING, PATH)

AUTO = "auto"


class Count:
    """A whole number from `low` to `high`; with `auto`, perfdoctor can choose it."""

    def __init__(self, low: int, high: int, auto: bool = False) -> None:
        self.low = low
        self.high = high
        self.auto = auto

    @property
    def metavar(self) -> str:
        """How help shows the value."""
        return "N|auto" if self.auto else "N"

    @property
    def allowed(self) -> str:
        """What may stand there, in words."""
        return f"a whole number from {self.low} to {self.high}" + (" or auto" if self.auto else "")

    def read(self, word: str) -> Any:
        """The value that `word` means: a number, or AUTO. Raises ValueError."""
        if self.auto and word == AUTO:
            return AUTO
        if not (word.isascii() and word.isdigit() and self.low <= int(word) <= self.high):
            raise ValueError(word)
        return int(word)


class OneOf:
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    @property
    def metavar(self) -> str:
        """How help shows the value."""
        return "|".join(self.words)

    @property
    def allowed(self) -> str:
        """What may stand there, in words."""
        return "one of " + ", ".join(self.words)

    def read(self, word: str) -> str:
        """The word, checked. Raises ValueError."""
        if word not in self.words:
            raise ValueError(word)
        return word


class Declared:
    """What a tweak says of itself."""

    def __init__(self, flag: str, result: str, takes: Any, extras: Dict[str, Any]) -> None:
        self.flag = flag
        self.result = result
        self.takes = takes  # of its value: a Count or a OneOf; None: a flag alone
        self.extras = extras  # further flags that go with it -> what they take


def tweak(
    flag: str, result: str, takes: Any = None, extras: Optional[Dict[str, Any]] = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Mark the one function of a tweak's file: `function(here)`, or `function(here, value)` if it takes one.

    Extras are handed over by name: `--amp-dtype bf16` as `amp_dtype="bf16"`.
    """

    def mark(function: Callable[..., None]) -> Callable[..., None]:
        function.__tweak__ = Declared(flag, result, takes, extras or {})  # type: ignore[attr-defined]
        return function

    return mark


class Tweaking:
    """What a tweak works with: torch, the way to replace an attribute, and where to tell what was done."""

    def __init__(self, name: str, session: Session, torch: Any) -> None:
        self.name = name
        self.session = session
        self.torch = torch
        self._told: Dict[Tuple[Any, ...], None] = {}
        self._doubts: Set[str] = set()

    def applied(
        self, what: str, was: Any = None, now: Any = None, at: Optional[Dict[str, Any]] = None
    ) -> None:
        """Tell that `what` was changed, at the user's line that asked for it; once for each line."""
        self._tell("applied", what, at, was=was, now=now)

    def left_alone(self, what: str, because: str, at: Optional[Dict[str, Any]] = None) -> None:
        """Tell that `what` was not changed, and why; once for each line."""
        self._tell("left_alone", what, at, because=because)

    def may_differ(self, because: str) -> None:
        """Tell why this script cannot have the result that the tweak promises; in a loader worker, too."""
        if because not in self._doubts:
            self._doubts.add(because)
            tell = self.session.append if self.session.in_worker() else self.session.event
            tell("tweak", tweak=self.name, outcome="may_differ", because=because)

    def _tell(self, outcome: str, what: str, at: Optional[Dict[str, Any]], **fields: Any) -> None:
        at = user_line() if at is None else at
        key = (outcome, what, None if at is None else (at["file"], at["line"]))
        if key not in self._told:
            self._told[key] = None
            self.session.event("tweak", tweak=self.name, outcome=outcome, what=what, at=at, **fields)

    def alter(
        self,
        owner: Any,
        attribute: str,
        before: patch.Prepare,
        after: Optional[patch.Conclude] = None,
        method: bool = False,
    ) -> None:
        """Replace `owner.attribute` by a wrapper that changes arguments or the result: see patch.alter."""
        patch.alter(owner, attribute, before, after, self.name, method)

    def guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` as a callback whose errors are ours and turn this tweak off."""
        return patch.guarded(self.name, function)

    def on_import(self, module: str, callback: Callable[[Any], object]) -> None:
        """Call `callback(module)` once the script has imported it; now, if it has."""
        on_import(module, self.guarded(callback))


def apply_all(session: Session, torch: Any) -> None:
    """Apply the tweaks that this run was asked for: {module's name: {argument: value}} in the options."""
    for name, values in (session.options.get("tweaks") or {}).items():
        patch.guarded(name, _apply)(session, torch, name, values)


def _apply(session: Session, torch: Any, name: str, values: Dict[str, Any]) -> None:
    root = __package__.rpartition(".")[0] if __package__ else ""
    module = import_module(f"{root}.tweaks.{name}")
    for loaded in [sys.modules[key] for key in list(sys.modules) if key.startswith(f"{root}.tweaks.")]:
        patch.hide_module(loaded)  # what tweaks share as well
    arguments: List[Any] = [values["value"]] if "value" in values else []
    extras = {key: value for key, value in values.items() if key != "value"}
    function_of(module)(Tweaking(name, session, torch), *arguments, **extras)


def function_of(module: Any) -> Callable[..., None]:
    """The one function that a tweak's module marks. Raises TypeError where there are others than one."""
    marked: List[Callable[..., None]] = [
        value
        for value in vars(module).values()
        if hasattr(value, "__tweak__") and value.__module__ == module.__name__
    ]
    if len(marked) != 1:
        raise TypeError(
            f"{module.__name__} needs exactly one function marked with @tweak, found {len(marked)}"
        )
    return marked[0]
