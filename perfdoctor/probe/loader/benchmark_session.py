"""Measures a DataLoader of the script instead of letting it train, and ends the script then.

The first loader that is iterated while gradients are on is the one to train with, unless another was asked
for by its number or its line. It is measured where the script would have begun to iterate it.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Optional, Tuple

from ...wire.events.loader_benchmark import (
    LoadingEndEvent,
    LoadingEvent,
    LoadingFailedEvent,
    LoadingNoneEvent,
    LoadingSkippedEvent,
)
from ...wire.names import MEASURED, MEASURING
from .. import patch
from ..session import Session
from ..trial.stop import EarlyExit
from ..user_frames import library_between, user_line
from ..wrapping import Args, Kwargs, nothing
from .batch_costs import Caught, described
from .benchmark import Loading
from .loader import Loaders

WITHOUT_LOADER = 20  # updates without the loader to measure: this script trains on something else


class Only:
    """The hooks of a process whose loader is to be measured."""

    def __init__(self, session: Session, loaders: Loaders, torch: Any) -> None:
        self.session = session
        self.loaders = loaders
        self.torch = torch
        self.options: Dict[str, Any] = session.options["loader"]
        self.built: Dict[int, Any] = {}  # kept: libraries build another loader from the user's, and drop it
        self.places: Dict[int, Dict[str, Any]] = {}
        self.updates = 0
        self.measuring = False
        self.ending = EarlyExit()
        self._marks = -1  # descriptor of MEASURING

    # ------------------------------------------------------------ hooks

    def after_init(self, loader: Any, args: Args, result: Any) -> None:
        """Write down what was built, and where."""
        self.loaders.after_init(loader, args, result)
        place = user_line()
        number = self.loaders.numbers.get(loader)
        if number is None:
            return
        self.built[number] = loader
        if place is not None:
            self.places.setdefault(number, place)

    def before_iter(self, args: Args, kwargs: Kwargs) -> None:
        """Measure instead of iterating, if this is the moment; does not return then."""
        self.ending.before_going_on()
        if self.measuring or self.session.in_worker():
            return
        self.session.recording()  # opens this process's files
        loader = self._chosen(args[0])
        if loader is None:
            return
        self.measuring = True
        if self._claim():
            self._measure(loader)
        self._end()

    def before_update(self, optimizer: Any) -> None:
        """An optimizer is about to step."""
        self.updates += 1
        if self.updates > WITHOUT_LOADER:
            self.session.recording()
            asked = self._pick() != (None, None)
            self.session.write(LoadingNoneEvent(updates=WITHOUT_LOADER, asked=asked))
            self._claim()
            self._end()

    # ------------------------------------------------------------ which loader

    def _pick(self) -> Tuple[Optional[int], Optional[str]]:
        return self.options.get("number"), self.options.get("at")

    def _chosen(self, iterated: Any) -> Any:
        """The loader to measure now, or None to let the script go on."""
        number, at = self._pick()
        if number is None and at is None:
            if self.torch.is_grad_enabled():
                return iterated
            self.session.write(LoadingSkippedEvent(id=self.loaders.numbers.get(iterated)))
            return None
        if at is not None:
            number = min((key for key, place in self.places.items() if _is_at(place, at)), default=None)
        return None if number is None else self.built.get(number)

    def _claim(self) -> bool:
        """Whether this process is the one that measures: the others would load beside it."""
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._marks = os.open(os.path.join(self.session.run_dir, MEASURING), flags, 0o600)
        except OSError:
            return False
        return True

    def _mark(self, words: str) -> None:
        os.write(self._marks, f"{words}\n".encode())

    # ------------------------------------------------------------ measuring

    def _measure(self, loader: Any) -> None:
        outcome = "whole"
        try:
            with Caught() as trouble:
                self._load(loader)
            if trouble.error is not None:
                outcome = "failed"
                self.session.write(LoadingFailedEvent(**described(trouble.error)))
        except KeyboardInterrupt:
            outcome = "interrupted"
        self.session.write(LoadingEndEvent(outcome=outcome))

    def _load(self, loader: Any) -> None:
        if loader not in self.loaders.numbers:
            self.after_init(loader, (), None)
        ranks = _ranks()
        self.session.write(
            LoadingEvent(
                id=self.loaders.numbers[loader],
                built=self.loaders.count,
                ranks=ranks,
                seconds=self.options["seconds"],
                same_dataset=[key for key, other in self.built.items() if other.dataset is loader.dataset],
                library=library_between(),
            )
        )
        Loading(loader, self.torch, {**self.options, "ranks": ranks}, self.session.write, self._mark).run()

    def _end(self) -> None:
        if self._marks >= 0:
            self._mark(MEASURED)
        self.ending.begin()


def install(only: Only) -> None:
    """Put the hooks into torch."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    data = only.torch.utils.data
    patch.wrap(data.DataLoader, "__init__", only.loaders.before_init, only.after_init, "loader_init")
    patch.wrap(data.DataLoader, "__iter__", only.before_iter, nothing, "loading")
    only.ending.install(only.torch)
    register_optimizer_step_pre_hook(patch.optimizer_hook("optimizer", only.before_update))


def _is_at(place: Dict[str, Any], at: str) -> bool:
    """Whether a place is the one called `train.py:41`."""
    file, _, line = at.rpartition(":")
    return str(place["line"]) == line and f"/{place['file']}".endswith(f"/{file}")


def _ranks() -> int:
    """Processes that train on this host."""
    word = os.environ.get("LOCAL_WORLD_SIZE", "")
    if word.isdigit() and int(word):
        return int(word)
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    return 1
