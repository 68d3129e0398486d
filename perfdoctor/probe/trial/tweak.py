"""What a tweak declares, and what is handed to it in the user's process.

A tweak is one file in `tweaks/` with one function marked by `@tweak`. The command line loads it for its help,
the user's interpreter loads it to act: the function is called once, right after torch was imported, with a
`Tweaking` and its value. It replaces what it has to, and tells each place where it changed something and each
that it left alone.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Callable, Dict, List, Optional, Protocol, Sequence, Set, Tuple

from ...wire.events.process import TweakEvent
from .. import compile_question, marked, patch
from ..instance_methods import replace_for_instances
from ..on_import import on_import
from ..session import Session
from ..user_frames import user_line

# What a tweak does to the result of training, as it declares it: each may do more than the one before.
BITWISE = "bit for bit"
ROUNDING = "within rounding"
PATH = "another path"
RESULTS = {
    BITWISE: "the losses stay the same to the last bit",
    ROUNDING: "the same mathematics in another order or precision",
    PATH: "other updates, or other data in them: compare what is learned",
}

AUTO = "auto"


class NoChoice(Exception):
    """There is nothing to choose a number by: why, and what to type instead."""

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why)
        self.hint = hint


class WatchedRun(Protocol):
    """What a tweak can ask of the run that was watched before a trial, to predict what it would change.

    perfdoctor hands it over, outside of the user's process. What was not measured is None.
    """

    device: Optional[str]  # "cpu", or the name of what the training ran on
    ranks: int
    usable_cores: float  # of this machine
    modelled: bool  # there is a model of the step: workers, prefetch and threads can be put into it
    loader: Any  # of the training: num_workers, batch_size, items, iterable ...
    has_loader: bool  # False: the script is known to have none
    epoch_waits: float  # share of a step that waits for epochs to start and end
    restarts: Any  # share of a step that goes if workers live on between epochs: low, likely, high
    slowed: Any  # share of a step that training takes longer where workers start: low, likely, high
    fixed_step: Optional[Tuple[float, float, float]]  # share of a step that no larger batch makes longer
    threads: Optional[int]  # that torch computes with
    memory_times: Optional[float]  # how many times the memory that grows with the batch there is

    def value(self, flag: str) -> Any:
        """The value of a flag that is tried as well; True for one without a value, None where it is not."""

    def good_workers(self) -> Optional[int]:
        """The fewest workers, from 0 on, that are nearly as good as any number of them."""

    def other_waits(self, workers: int) -> Any:
        """Share of a step's waits for other loaders that goes if so many workers prepare their batches."""

    def changes(self, **quantities: Any) -> Any:
        """A prediction: `step`, `batch`, `starts` and `others` are shares of what was measured that go
        (low, likely, high), `workers`, `prefetch` and `threads` the numbers from then on, `restarts` that new
        workers start in every epoch. Without any, nothing changes.
        """

    def as_advised(self, **quantities: Any) -> Any:
        """A prediction that a finding makes which names the tweak, with these quantities beside it."""


class Count:
    """A whole number from `low` to `high`; with `auto`, `auto(run)` lists what to try, or raises NoChoice."""

    def __init__(
        self, low: int, high: int, auto: Optional[Callable[[WatchedRun], Sequence[int]]] = None
    ) -> None:
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


Predict = Callable[..., Any]
# From when on a tweak pays: at any step once all has settled; after slow first steps that the original has
# not; from the second epoch on; where epochs begin; where the script validates.
AT_ONCE, COMPILED, SECOND_EPOCH = "at once", "compiled", "second epoch"
EPOCH_BORDERS, VALIDATION = "epoch borders", "validation"


class Declared:
    """What a tweak says of itself: see `tweak`."""

    def __init__(
        self,
        flag: str,
        result: str,
        takes: Any = None,
        extras: Optional[Dict[str, Any]] = None,
        predict: Optional[Predict] = None,
        acts_on: Tuple[str, ...] = (),
        samples: Optional[Callable[[int, Optional[float]], float]] = None,
        loader_argument: Optional[str] = None,
        first_epoch: bool = False,
        pays: str = AT_ONCE,
        waits: int = 0,
        passes: int = 0,
        measures: Optional[str] = None,
        edits: Sequence[Any] = (),
    ) -> None:
        self.flag = flag
        self.result = result
        self.takes = takes
        self.extras = extras or {}
        self.predict = predict
        self.acts_on = acts_on
        self.samples = samples
        self.loader_argument = loader_argument
        self.first_epoch = first_epoch
        self.pays = pays
        self.waits = waits
        self.passes = passes
        self.measures = measures
        self.edits = edits


def tweak(
    flag: str, result: str, takes: Any = None, extras: Optional[Dict[str, Any]] = None, **known: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Mark the one function of a tweak's file: `function(here)`, or `function(here, value)` if it takes one.

    `takes` reads its value (a Count or a OneOf; None: a flag alone), `extras` are further flags that go with
    it and what they take. They are handed over by name: `--amp-dtype bf16` as `amp_dtype="bf16"`.

    What else is `known` of a tweak is asked outside of the user's process: `predict(run)`, or
    `predict(run, value)`, what changes about a step (None: the run does not tell; findings may), of the time
    of which classes (`acts_on=("data",)`); `samples(value, batch)`, how many times the samples of a step it
    holds; `loader_argument`, which of a DataLoader's its value becomes; `first_epoch`, that the first epoch
    is unlike later ones: what is compiled meets a smaller batch at its end, a cache is being filled; `pays`,
    from when on what it changes can be measured; `waits` and `passes`, for how many steps, and passes of
    validation, it only looks on; `measures`, the class that takes no time any more: no change to keep, but
    what changes of that class cannot surpass; `edits`, how one writes the change into a script by hand
    (see by_hand.py: the first way that fits).
    """

    def mark(function: Callable[..., None]) -> Callable[..., None]:
        function.__tweak__ = Declared(flag, result, takes, extras, **known)  # type: ignore[attr-defined]
        return function

    return mark


class Tweaking:
    """What a tweak works with: torch, the way to replace an attribute, and where to tell what was done."""

    def __init__(self, name: str, session: Session, torch: Any) -> None:
        self.name = name
        self.session = session
        self.torch = torch
        self._starting = False
        self._told: Dict[Tuple[Any, ...], None] = {}
        self._doubts: Set[str] = set()

    def start(self, tweak: Callable[..., None], *values: Any, **extras: Any) -> None:
        """Call the tweak's function. What it changes at once, no line of the user's asked for."""
        self._starting = True
        try:
            tweak(self, *values, **extras)
        finally:
            self._starting = False

    def applied(
        self, what: str, was: Any = None, now: Any = None, at: Optional[Dict[str, Any]] = None
    ) -> None:
        """Tell that `what` was changed, at the user's line that asked for it; once for each line."""
        self._tell("applied", what, at, was=was, now=now)

    def left_alone(self, what: str, because: str, at: Optional[Dict[str, Any]] = None) -> None:
        """Tell that `what` was not changed, and why; once for each line."""
        self._tell("left_alone", what, at, because=because)

    def withdrawn(self, what: str, because: str, at: Optional[Dict[str, Any]] = None) -> None:
        """Tell that `what`, once changed, is the script's own again from here on; in a loader worker, too."""
        self._tell("withdrawn", what, at, because=because)

    def broke(self, because: str) -> None:
        """Tell that the tweak ran into an error, which has turned it off."""
        self._tell("withdrawn", None, None, because=because)

    def may_differ(self, because: str) -> None:
        """Tell why this script cannot have the result that the tweak promises; in a loader worker, too."""
        if because not in self._doubts:
            self._doubts.add(because)
            self._write(TweakEvent(tweak=self.name, outcome="may_differ", because=because))

    def _tell(self, outcome: str, what: Optional[str], at: Optional[Dict[str, Any]], **fields: Any) -> None:
        at = user_line() if at is None and not self._starting else at
        key = (outcome, what, None if at is None else (at["file"], at["line"]))
        if key not in self._told:
            self._told[key] = None
            event = TweakEvent(tweak=self.name, outcome=outcome, what=what, at=at, **fields)
            (self._write if outcome == "withdrawn" else self.session.write)(event)

    def _write(self, event: TweakEvent) -> None:
        """Write what a loader worker may be the only one to know."""
        (self.session.append if self.session.in_worker() else self.session.write)(event)

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

    def alter_instances(self, owner: Any, attribute: str, before: patch.Prepare) -> None:
        """Replace a method likewise for instances alone: the class keeps its own."""
        replace_for_instances(owner, attribute, lambda inner: patch.altering(inner, before, None, self.name))

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
    module = import_module(f"...tweaks.{name}", __package__)
    folder = module.__name__.rpartition(".")[0] + "."
    for loaded in [sys.modules[key] for key in list(sys.modules) if key.startswith(folder)]:
        compile_question.hide_module(loaded)  # what tweaks share as well
    arguments: List[Any] = [values["value"]] if "value" in values else []
    extras = {key: value for key, value in values.items() if key != "value"}
    here = Tweaking(name, session, torch)
    patch.when_off(name, here.broke)
    here.start(function_of(module), *arguments, **extras)


def declaration(module: Any) -> Declared:
    """What the tweak in a module says of itself."""
    said: Declared = function_of(module).__tweak__  # type: ignore[attr-defined]
    return said


def function_of(module: Any) -> Callable[..., None]:
    """The one function that a tweak's module marks. Raises TypeError where there are others than one."""
    return marked.the_one(module, "__tweak__", "@tweak")
