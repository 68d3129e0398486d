"""Train with batches of N samples.

## What changes
`batch_size` of each `DataLoader` that trains, in each process. Which loaders train is decided as early as
possible, because scripts ask for the number of batches: a loader that shuffles does (`shuffle=True`, or one
of torch's random samplers). Where a sampler of the script's own or an `IterableDataset` decides, the loader
gets its size when it is first iterated with gradients on, unless optimizers have stepped on batches of
another one by then. So does a loader that does not shuffle, where none does that or has a sampler of the
script's own. The learning rate does not change. A script that also has its batch size in another place may
fail, and then its trial fails, too.

## Left alone
- A loader for evaluation: it is iterated without gradients, or beside one that trains.
- A loader with its own batch sampler, or with `batch_size=None`: something else makes its batches.
- A loader that already has this batch size.

## Same result
Another path: each update sees other samples. Trials compare samples per second, not steps.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Optional, Set

from ..probe.trial.by_hand import Argument
from ..probe.trial.tweak import PATH, Count, NoChoice, Tweaking, WatchedRun, tweak
from ..probe.user_frames import user_line
from ._loaders import CALLS, each_kind, on_built

Line = Optional[Dict[str, Any]]

LARGER = (2, 4, 8, 16)  # times the batch: each costs a trial, and beyond it is another training altogether
OF_MEMORY = 0.9  # of what there is: the peak of a step is higher than samples once a second show
BATCHES_LEFT = 4  # of an epoch: with fewer, the last and smaller one counts as much
UNKNOWN_ROOM = 2.0  # times the memory that is tried where it is not known how much there is


def predict(run: WatchedRun, count: int) -> Any:
    """The fixed part of a step, shared among more samples or fewer."""
    if run.loader is None or not run.loader.batch_size or run.fixed_step is None:
        return None
    gone = 1.0 - run.loader.batch_size / count
    return run.changes(step=sorted(share * gone for share in run.fixed_step))


def choose(run: WatchedRun) -> List[int]:
    """Larger batches that memory and dataset leave room for."""
    loader = run.loader
    if loader is None or not loader.batch_size:
        raise NoChoice(
            "--batch-size auto: the size that the script uses is not known",
            "watch it first (perfdoctor run train.py), or give a number (--batch-size 64)",
        )
    room = UNKNOWN_ROOM if run.memory_times is None else OF_MEMORY * run.memory_times
    each_rank = (loader.items or 0) // max(1, run.ranks)
    sizes = [
        loader.batch_size * times
        for times in LARGER
        if times <= room and (not loader.items or loader.batch_size * times * BATCHES_LEFT <= each_rank)
    ]
    if not sizes:
        what, least = "memory" if room < LARGER[0] else "the dataset", LARGER[0] * loader.batch_size
        raise NoChoice(
            f"--batch-size auto: {what} leaves no room for batches of {least}",
            f"to try it all the same: --batch-size {least}",
        )
    return sizes


@tweak(
    "--batch-size",
    PATH,
    Count(1, 1_048_576, auto=choose),
    predict=predict,
    acts_on=("compute",),
    edits=[Argument(*CALLS, name="batch_size", place=1)],
    samples=lambda count, batch: count / batch if batch else 1.0,
)
def batch_size(here: Tweaking, count: int) -> None:
    """Give every DataLoader that trains batches of `count` samples."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    sizes = _Sizes(here, count)
    register_optimizer_step_post_hook(here.guarded(sizes.stepped))
    on_built(here, sizes.built)
    each_kind(here, lambda loader: here.alter(loader, "__iter__", sizes.before_iter))


class _Sizes:
    """Keeps which loaders train, and what was done about them."""

    def __init__(self, here: Tweaking, count: int) -> None:
        self._here = here
        self._data = here.torch.utils.data
        self._count = count
        self._changed: Set[int] = set()  # ids of datasets: a library may build a loader anew from the user's
        # Batch samplers that torch made for a loader -> the line that built it.
        self._made: weakref.WeakKeyDictionary[Any, Line] = weakref.WeakKeyDictionary()
        self._undecided: weakref.WeakSet[Any] = weakref.WeakSet()  # those of which the use will tell
        self._one_shuffles = False  # or may
        self._one_is_used = False  # with gradients on
        self._one_trains = False  # optimizers have stepped since

    def built(self, loader: Any) -> None:
        """Decide on a loader that is just built, where that is possible."""
        if loader.batch_size is None:
            if not self._is_made(_innermost(loader)):  # of a loader built anew, or split
                self._here.left_alone("DataLoader", "something else makes its batches")
            return
        self._made[loader.batch_sampler] = user_line()
        shuffles = self._shuffles(loader)
        if shuffles is not False and not isinstance(loader.dataset, self._data.IterableDataset):
            self._one_shuffles = True
        if shuffles:
            self._train(loader)
        else:
            self._undecided.add(loader.batch_sampler)

    def stepped(self, *step: Any) -> None:
        """Note that a loader trains, if one is used: looking at a batch of another one tells nothing."""
        self._one_trains = self._one_is_used

    def before_iter(self, args: Any, kwargs: Any) -> None:
        """Decide on a loader when it is used."""
        batches = _innermost(args[0])
        if self._is_made(batches) and batches in self._undecided:
            self._decide(args[0], batches)
        self._one_is_used |= self._here.torch.is_grad_enabled()

    def _decide(self, loader: Any, batches: Any) -> None:
        if not self._here.torch.is_grad_enabled():
            self._leave(loader, "it is iterated without gradients")
        elif self._one_trains:
            self._leave(loader, "another loader trains")
        elif self._one_shuffles and self._shuffles(loader) is False:
            self._leave(loader, "it does not shuffle, and another loader may")
        else:
            self._undecided.discard(batches)
            self._train(loader)

    def _is_made(self, batches: Any) -> bool:
        return isinstance(batches, self._data.BatchSampler) and batches in self._made

    def _shuffles(self, loader: Any) -> Optional[bool]:
        """Whether it does; None where its dataset or a sampler of the script's own decides."""
        data, sampler = self._data, loader.sampler
        if isinstance(sampler, data.DistributedSampler):
            return bool(sampler.shuffle)
        if isinstance(sampler, data.SequentialSampler):
            return False
        known = (data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler)
        return True if isinstance(sampler, known) else None

    def _leave(self, loader: Any, because: str) -> None:
        self._here.left_alone("DataLoader", because, self._made[_innermost(loader)])

    def _train(self, loader: Any) -> None:
        outer, batches = loader.batch_sampler, _innermost(loader)
        was = batches.batch_size
        if getattr(outer, "split_batches", False) and self._count % outer.num_processes:
            self._leave(loader, f"accelerate splits each batch among {outer.num_processes} processes")
        elif was != self._count:
            outer.batch_size = batches.batch_size = self._count
            if loader.batch_size is not None:
                vars(loader)["batch_size"] = self._count  # torch allows it in the constructor only
            self._changed.add(id(loader.dataset))
            self._here.applied("DataLoader batch_size", was, self._count, self._made[batches])
        elif id(loader.dataset) not in self._changed:
            self._leave(loader, f"batch_size is already {was}")


def _innermost(loader: Any) -> Any:
    """The batch sampler of a loader, without accelerate's around it, which has the share of one process."""
    return getattr(loader.batch_sampler, "batch_sampler", loader.batch_sampler)
