"""Which of the batches that this process makes are looked at, and by whom.

A loader without workers makes its batches in the training loop, where even to ask each of those who look
costs microseconds. So they say how many batches they leave out, and nobody is asked before the first of them
has its turn. One of them may wait for certain items as well, whichever batch they come in.
"""

from __future__ import annotations

import weakref
from types import FunctionType
from typing import Any, Callable, Dict, List, Set

from . import patch

NEVER = 1 << 62
NO_ITEMS: Set[int] = set()
TORCHS = "torch.utils.data._utils.collate"
OF_FETCHER = "_perfdoctor_collating"  # a fetcher's attribute: a table of ours would keep it alive


def _none() -> None:
    """Stands for a weak reference whose object is gone."""


class _Collating:
    """The collate function of one fetcher: in most turns, and where all are asked."""

    __slots__ = ("usual", "watched")

    def __init__(self, original: Callable[[Any], Any]) -> None:
        # Stack samples know torch's own by its file, and the script's by the wrapper's name.
        own = type(original) is FunctionType and original.__module__ == TORCHS
        self.usual = self.watched = original if own else _named(original)


def _named(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def collate(samples: Any) -> Any:
        try:
            return original(samples)
        except BaseException as error:
            patch.cut(error)
            raise

    # An object of the script's may count who asks it for its name: this has its own.
    return patch.finished(collate, collate, "collate")


class FetchTurns:
    """The fetchers of one process."""

    def __init__(self) -> None:
        self.count = 0  # batches asked for, in this process and, if it was forked, in its parent
        self.next = 0  # the count from which on all who look are asked
        self.dues: List[Callable[[], Any]] = []  # each tells the count from which on it wants to be asked
        self.fetches: Dict[Any, Callable[..., Any]] = {}  # by kind of fetcher, under the wrappers
        self.chosen: weakref.WeakKeyDictionary[Any, Set[int]] = weakref.WeakKeyDictionary()
        self.last: Callable[[], Any] = _none  # the fetcher that was used last
        self.items = NO_ITEMS  # that are waited for there

    def install(self, kinds: List[Any]) -> None:
        """Put one wrapper around `fetch` of each kind of fetcher."""
        for kind in kinds:
            self.fetches[kind] = kind.fetch
            patch.replace(kind, "fetch", self._by_turns(kind))

    def kinds(self) -> List[Any]:
        """The kinds of fetchers that there are."""
        return list(self.fetches)

    def add(self, kind: Any, before: patch.Before, after: patch.After, name: str) -> None:
        """Call `before` and `after` around `fetch` when all are asked: see patch.around."""
        self.fetches[kind] = patch.around(self.fetches[kind], before, after, name)

    def due(self, name: str, turn: Callable[[], int]) -> None:
        """Ask all again when the count is `turn()`."""
        self.dues.append(patch.guarded(name, turn))

    def made(self, fetcher: Any) -> None:
        """A fetcher was made: all are asked about its first batch."""
        self.next, self.last = 0, _none
        collating = _Collating(fetcher.collate_fn)
        setattr(fetcher, OF_FETCHER, collating)
        fetcher.collate_fn = collating.usual

    def add_collate(self, fetcher: Any, before: patch.Before, after: patch.After, name: str) -> None:
        """Call `before` and `after` around the collate function of a batch that all are asked about."""
        collating = getattr(fetcher, OF_FETCHER)
        collating.watched = patch.around(collating.watched, before, after, name)

    def wait_for(self, fetcher: Any, items: Set[int]) -> None:
        """Ask all as well where one of these items is about to be read."""
        self.chosen[fetcher] = items
        self.last = _none

    def _by_turns(self, kind: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def replaced(original: Callable[..., Any]) -> Callable[..., Any]:
            def fetch(fetcher: Any, index: Any) -> Any:
                self.count += 1
                try:
                    if self.count >= self.next:
                        return self._asked(kind, fetcher, index)
                    if self.last() is not fetcher:
                        self.last, self.items = weakref.ref(fetcher), self.chosen.get(fetcher, NO_ITEMS)
                    try:  # anything but a plain list may be used up, or tell of it, where it is read
                        plain = type(index) is list or type(index) is tuple
                        lacks = not self.items or (plain and self.items.isdisjoint(index))
                    except TypeError:  # what no set can hold
                        lacks = False
                    return original(fetcher, index) if lacks else self._asked(kind, fetcher, index)
                except BaseException as error:
                    patch.cut(error)
                    raise

            return patch.finished(fetch, original, "fetch")

        return replaced

    def _asked(self, kind: Any, fetcher: Any, index: Any) -> Any:
        """A batch that all who look are asked about."""
        try:  # a signal's handler may raise anywhere
            collating = getattr(fetcher, OF_FETCHER, None)
            swapped = collating is not None and fetcher.collate_fn is collating.usual
            if collating is not None and swapped:
                fetcher.collate_fn = collating.watched
            try:
                return self.fetches[kind](fetcher, index)
            finally:
                if collating is not None and swapped:
                    fetcher.collate_fn = collating.usual
                turns = [due() for due in self.dues]
                self.next = min([turn for turn in turns if turn is not None], default=NEVER)
        except BaseException as error:
            patch.cut(error)
            raise
