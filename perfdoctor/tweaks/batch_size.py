"""Train with batches of N samples.

## What changes
`batch_size` of each `DataLoader` that trains, in each process. What trains is decided as early as it can be
known, because scripts ask for the number of batches: a loader that shuffles does (`shuffle=True`, or a
sampler of torch's that draws). Where no loader of the script shuffles, the first one that is iterated with
gradients on does, and gets its size then. The learning rate stays as it is. A script that has its batch size
in another place too may fail, and so does its trial then.

## Left alone
- A loader for evaluation: it does not shuffle, and it is iterated without gradients or beside one that
  trains.
- A loader with a batch sampler of its own, or with `batch_size=None`: its batches are made elsewhere.
- A loader that has this batch size already.

## Same result
Another path: each update sees other samples. Trials compare samples per second, not steps.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, Optional, Set

from ..probe.tweak import PATH, Count, Tweaking, tweak
from ..probe.where import user_line
from ._loaders import each_kind, on_built

Line = Optional[Dict[str, Any]]


@tweak("--batch-size", PATH, Count(1, 1_048_576, auto=True))
def batch_size(here: Tweaking, count: int) -> None:
    """Give every DataLoader that trains batches of `count` samples."""
    sizes = _Sizes(here, count)
    on_built(here, sizes.built)
    each_kind(here, lambda loader: here.alter(loader, "__iter__", sizes.before_iter))


class _Sizes:
    """Which loaders train, and what was done about them."""

    def __init__(self, here: Tweaking, count: int) -> None:
        self._here = here
        self._count = count
        self._changed: Set[int] = set()  # ids of datasets: a library may build a loader anew from the user's
        # Batch samplers that torch made for a loader -> the line that built it.
        self._made: weakref.WeakKeyDictionary[Any, Line] = weakref.WeakKeyDictionary()
        self._undecided: weakref.WeakSet[Any] = weakref.WeakSet()  # those of which the use will tell
        self._one_trains = False

    def built(self, loader: Any) -> None:
        """Decide on a loader that is just built, where that is possible."""
        if loader.batch_size is None:
            batches = loader.batch_sampler
            if not self._is_made(
                getattr(batches, "batch_sampler", batches)
            ):  # of a loader built anew, or split
                self._here.left_alone("DataLoader", "its batches are made elsewhere")
            return
        self._made[loader.batch_sampler] = user_line()
        if self._shuffles(loader.sampler):
            self._train(loader)
        else:
            self._undecided.add(loader.batch_sampler)

    def before_iter(self, args: Any, kwargs: Any) -> None:
        """Decide on a loader when it is used."""
        loader = args[0]
        batches = loader.batch_sampler
        if not self._is_made(batches) or batches not in self._undecided:
            return
        if not self._here.torch.is_grad_enabled():
            self._leave(loader, "it is iterated without gradients")
        elif self._one_trains:
            self._leave(loader, "it does not shuffle, beside another one that trains")
        else:
            self._undecided.discard(batches)
            self._train(loader)

    def _is_made(self, batches: Any) -> bool:
        return isinstance(batches, self._here.torch.utils.data.BatchSampler) and batches in self._made

    def _shuffles(self, sampler: Any) -> bool:
        data = self._here.torch.utils.data
        if isinstance(sampler, data.DistributedSampler):
            return bool(sampler.shuffle)
        return isinstance(sampler, (data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler))

    def _leave(self, loader: Any, because: str) -> None:
        self._here.left_alone("DataLoader", because, self._made[loader.batch_sampler])

    def _train(self, loader: Any) -> None:
        self._one_trains = True
        batches = loader.batch_sampler
        was = batches.batch_size
        if was != self._count:
            batches.batch_size = self._count
            if loader.batch_size is not None:
                vars(loader)["batch_size"] = self._count  # torch allows it in the constructor only
            self._changed.add(id(loader.dataset))
            self._here.applied("DataLoader batch_size", was, self._count, self._made[batches])
        elif id(loader.dataset) not in self._changed:
            self._leave(loader, f"batch_size is {was} already")
