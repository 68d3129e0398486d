"""Cache the items of datasets in memory.

## What changes
The items that a `DataLoader` gets from its map-style dataset: an item is prepared when it is first requested,
and a copy of it is returned from then on, so the gain begins with the second epoch. The script's dataset
keeps its type and content; only the loader looks into the cache first. Each worker has its own cache, and is
made to persist for that: with N workers and shuffled batches, an item is prepared up to N times before all
workers have it (`--workers 0` caches each item once).

Items are cached while more than a quarter of memory is left, of the machine and of what its control groups
allow.

## Left alone
- A dataset whose items draw random numbers, from Python, NumPy or torch: caching would freeze augmentation.
- A dataset where one of the first 32 repeated items differs from its first version. Those items are prepared
  again to check that.
- An `IterableDataset`, which has an order and no items, and a dataset that is read by whole batches.
- Items that hold anything but tensors in host memory, NumPy arrays, Pillow images, numbers and strings, in
  lists, tuples and dictionaries: other objects cannot be copied safely.

## Same result
Bit for bit. Random numbers from the dataset's own generator that the comparison above misses, or a change
that the script makes to its dataset after the second epoch, would show as a different loss. Workers that
persist are not seeded again in each epoch: where the dataset draws random numbers in them, that is said.
"""

from __future__ import annotations

import random
import sys
import weakref
from time import monotonic
from typing import Any, Callable, Dict, Hashable, List, Optional, Sequence, Tuple

from ..probe.trial.tweak import BITWISE, SECOND_EPOCH, Tweaking, tweak
from ..probe.user_frames import user_line
from ..wire.events.process import TweakEvent
from ._draws import UNSEEDED, notice_draws
from ._items import Uncopied, copied, key_of, same
from ._loaders import keeping_epochs, on_built
from ._memory import left_share

PROVEN = 32  # items that came again as they were: what changes one item in ten escapes that with 3 %
LEFT_SHARE = 0.25  # of the memory, for what is not kept: batches, the model, the page cache
LOOK_S = 0.1  # between looks at the memory: what a core copies in that time is small beside a quarter of it
MISSING = object()
Prepare = Callable[[Sequence[Any]], Sequence[Any]]


@tweak("--cache-dataset", BITWISE, first_epoch=True, pays=SECOND_EPOCH)
def cache_dataset(here: Tweaking) -> None:
    """Cache the items that map-style datasets give to loaders."""
    data = here.torch.utils.data
    fetch = data._utils.fetch
    persists = keeping_epochs(here)
    stores = _Stores(here)

    def built(loader: Any) -> None:
        if isinstance(loader.dataset, data.IterableDataset):
            here.left_alone("DataLoader", "an IterableDataset has no items to cache")
            return
        stores.of(loader.dataset).at = user_line()
        if loader.num_workers and not loader.persistent_workers:
            vars(loader)["persistent_workers"] = True  # torch allows it in the constructor only
            here.applied("DataLoader persistent_workers", False, True)
            persists(loader)

    def before_fetcher(args: Any, kwargs: Any) -> Any:
        return args, kwargs, args[0]

    def after_fetcher(fetcher: Any, result: Any) -> Any:
        if isinstance(fetcher, fetch._MapDatasetFetcher) and hasattr(fetcher, "dataset"):
            fetcher.dataset = _Items(here, fetcher.dataset, stores.of(fetcher.dataset))
        return result

    on_built(here, built)
    notice_draws(here, UNSEEDED, only_workers=True)
    here.alter(fetch._BaseDatasetFetcher, "__init__", before_fetcher, after_fetcher)


class _Items:
    """A dataset with a cache in front, as only torch's fetcher uses it."""

    def __init__(self, here: Tweaking, dataset: Any, store: _Store) -> None:
        self._dataset = dataset
        self._find = here.guarded(store.find)
        self._keep = here.guarded(store.keep)

    def __getitem__(self, index: Any) -> Any:
        return self._take([index], self._one_by_one)[0]

    def __getitems__(self, indices: Sequence[Any]) -> Sequence[Any]:
        # At once also where the dataset gives single items: generators are then looked at once a batch.
        at_once: Prepare = getattr(self._dataset, "__getitems__", None) or self._one_by_one
        return self._take(indices, at_once)

    def _one_by_one(self, indices: Sequence[Any]) -> Sequence[Any]:
        return [self._dataset[index] for index in indices]

    def _take(self, indices: Sequence[Any], prepare: Prepare) -> Sequence[Any]:
        asked: Optional[_BatchRequest] = self._find(indices)
        if asked is None:
            return prepare(indices)
        fresh: Sequence[Any] = prepare(asked.missing) if asked.missing else []
        items: Optional[Sequence[Any]] = self._keep(asked, fresh)
        if items is not None:
            return items
        return fresh if len(asked.missing) == len(indices) else prepare(indices)


class _BatchRequest:
    """A fetcher's request: a key each, the cached items or MISSING, and the indices of the missing ones."""

    def __init__(self, keys: List[Hashable], items: List[Any], missing: List[Any], drawn: Any) -> None:
        self.keys = keys
        self.items = items
        self.missing = missing
        self.drawn = drawn  # the random generators before the missing ones are prepared


class _Stores:
    """The stores of all datasets of this process."""

    def __init__(self, here: Tweaking) -> None:
        self._here = here
        self._stores: Dict[int, _Store] = {}  # by id: a dataset need not have a hash

    def of(self, dataset: Any) -> _Store:
        """The store of a dataset; it is freed with the dataset."""
        key, stores = id(dataset), self._stores
        if key not in stores:
            stores[key] = _Store(self._here, f"items of {type(dataset).__name__}")
            try:
                stores[key].alive = weakref.ref(dataset, lambda gone: stores.pop(key, None))
            except TypeError:
                stores[key].alive = dataset  # a list, say: held, or another one could get its id
        return stores[key]


class _Store:
    """The items of one dataset that this process caches."""

    def __init__(self, here: Tweaking, what: str) -> None:
        self._here = here
        self._what = what
        self.at: Optional[Dict[str, Any]] = None  # the line that built its last loader
        self.alive: Any = None
        self._kept: Dict[Hashable, Any] = {}
        self._proven = 0
        self._on = True
        self._full = False
        self._next_look_s = 0.0

    def find(self, indices: Sequence[Any]) -> Optional[_BatchRequest]:
        """Looks items up; None if this dataset is not cached."""
        if not self._on:
            return None
        keys = [key_of(index) for index in indices]
        if None in keys:
            self._leave("it is read by whole batches")
            return None
        kept = self._kept if self._proven >= PROVEN else {}
        items = [copied(kept[key]) if key in kept else MISSING for key in keys]
        missing = [index for index, item in zip(indices, items) if item is MISSING]
        return _BatchRequest(keys, items, missing, _generators(self._here.torch) if missing else None)

    def keep(self, asked: _BatchRequest, fresh: Sequence[Any]) -> Optional[Sequence[Any]]:
        """The requested items; None if `fresh` does not fit the missing ones."""
        if not asked.missing:
            return asked.items
        if not isinstance(fresh, (list, tuple)) or len(fresh) != len(asked.missing):
            self._leave("it does not return a list of items for a list of indices")
            return None
        torch = self._here.torch
        if not _alike(torch, asked.drawn, _generators(torch)):
            self._leave("they are drawn with random numbers")
        new = iter(fresh)
        for place, key in enumerate(asked.keys):
            if asked.items[place] is MISSING:
                item = asked.items[place] = next(new)
                if self._on:
                    self._remember(key, item)
        return asked.items

    def _remember(self, key: Hashable, item: Any) -> None:
        if key in self._kept:
            self._proven += 1
            if not same(self._kept[key], item):
                self._leave(f"item {key} differed when read again")
            return
        if self._full or not self._has_room():
            return
        try:
            self._kept[key] = copied(item)
        except Uncopied as error:
            self._leave(f"they hold something that cannot be copied safely: {error}")
            return
        if len(self._kept) == 1:
            self._tell("applied", was="prepared each time", now="cached in memory")

    def _has_room(self) -> bool:
        now_s = monotonic()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_S
            self._full = left_share() < LEFT_SHARE
            if self._full:
                because = f"only {len(self._kept)} are cached: less than a quarter of memory is left"
                self._tell("left_alone", because=because)
        return not self._full

    def _leave(self, because: str) -> None:
        self._on = False
        if self._kept:
            self._here.withdrawn(self._what, because, self.at)
        else:
            self._tell("left_alone", because=because)
        self._kept.clear()

    def _tell(self, outcome: str, **fields: Any) -> None:
        """Reports on this dataset once: the first worker does so, into the training process's file."""
        here, worker = self._here, self._here.torch.utils.data.get_worker_info()
        if worker is None:
            getattr(here, outcome)(self._what, at=self.at, **fields)
        elif worker.id == 0:
            here.session.append(
                TweakEvent(tweak=here.name, outcome=outcome, what=self._what, at=self.at, **fields)
            )


def _generators(torch: Any) -> Tuple[Any, Any, Any]:
    """The states of the random generators that items are usually drawn with."""
    numpy = sys.modules.get("numpy.random")
    state = {} if numpy is None else numpy.get_state(legacy=False)
    numbers = [part if isinstance(part, int) else part.tobytes() for part in state.get("state", {}).values()]
    return [*numbers, state.get("has_gauss")], random.getstate(), torch.get_rng_state()


def _alike(torch: Any, before: Tuple[Any, Any, Any], after: Tuple[Any, Any, Any]) -> bool:
    """Whether nothing was drawn in between; numpy may have been imported."""
    numpy_same = before[0] in (after[0], [None])
    return numpy_same and before[1] == after[1] and bool(torch.equal(before[2], after[2]))
