"""Train on batches that are kept in memory, as if batches were always ready.

## What changes
The first eight batches of each training loader are kept, and from then on the loader hands out those in turn.
It asks neither its dataset nor its workers any more; epochs have as many batches as before. So the trial
measures what no change of the loader can surpass: if it is not faster, neither workers, nor caches, nor
another format will help. Transfers of batches to a device stay as they are.

## Left alone
- A loader between two of whose batches no optimizer steps: one for validation.
- A loader that does not tell how many batches an epoch has.
- Batches that hold anything but tensors in host memory, NumPy arrays, Pillow images, numbers and strings, in
  lists, tuples and dictionaries: other objects cannot be kept safely.
- Batches that a quarter of memory is no longer left for.

## Same result
Another path: the model sees the same few batches again and again. This is a measurement, and no change to
keep.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional

from ..probe import patch
from ..probe.accelerators import available
from ..probe.trial.tweak import PATH, Tweaking, WatchedRun, tweak
from ..probe.user_frames import user_line
from ._items import Uncopied, copied
from ._loaders import each_kind, predicted
from ._memory import left_share

KEPT = 8  # batches: of one, caches would hold what they never do
LEFT_SHARE = 0.25  # of the memory, for what is not kept


def predict(run: WatchedRun) -> Any:
    """Batches cost nothing, and no epoch waits for workers."""
    whole = (1.0, 1.0, 1.0)
    return predicted(run, lambda loader: run.changes(batch=whole, starts=(run.epoch_waits,) * 3))


@tweak("--replay-batches", PATH, predict=predict, acts_on=("data",), waits=KEPT + 1, measures="data")
def replay_batches(here: Tweaking) -> None:
    """Keep the first batches of training loaders, and train on those."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    steps = _StepCount()
    counted = here.guarded(steps.add)
    register_optimizer_step_post_hook(counted)
    stores: weakref.WeakKeyDictionary[Any, _KeptBatches] = weakref.WeakKeyDictionary()

    def begun(loader: Any) -> _KeptBatches:
        if loader not in stores:
            stores[loader] = _KeptBatches(here, loader)
        stores[loader].at = user_line()
        return stores[loader]

    def replaying(original: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
        @functools.wraps(original)
        def iterate(loader: Any) -> Iterator[Any]:
            store = None if here.session.in_worker() else here.guarded(begun)(loader)
            if store is None:
                return original(loader)
            if store.is_full:
                return _ReplayedEpoch(here, store, steps, None)
            return _ReplayedEpoch(here, store, steps, original(loader))

        return iterate

    each_kind(here, lambda kind: patch.replace(kind, "__iter__", replaying))


class _StepCount:
    """How many steps optimizers made."""

    def __init__(self) -> None:
        self.steps = 0

    def add(self, *step: Any) -> None:
        """One more."""
        self.steps += 1


class _KeptBatches:
    """The batches that are kept of one loader, and how many an epoch has."""

    def __init__(self, here: Tweaking, loader: Any) -> None:
        self._here = here
        self._batches: List[_KeptBatch] = []
        self._pins = bool(loader.pin_memory) and available(here.torch) is not None
        self._on = True
        self.at: Optional[Dict[str, Any]] = None  # the user's line that began its last epoch
        try:
            self.length = len(loader)
        except TypeError:
            self.length = 0
            self._leave("it does not tell how many batches an epoch has")

    @property
    def is_full(self) -> bool:
        """Whether there are as many as are handed out in turn."""
        return self._on and len(self._batches) >= min(KEPT, self.length)

    def keep(self, batch: Any) -> None:
        """One more, unless they are all there."""
        if not self._on or self.is_full:
            return
        if left_share() < LEFT_SHARE:
            self._leave("less than a quarter of memory is left")
            return
        try:
            self._batches.append(_KeptBatch(batch, self._pins))
        except Uncopied as error:
            self._leave(f"its batches hold something that cannot be copied safely: {error}")
            return
        kept = len(self._batches)
        if kept == min(KEPT, self.length):
            self._here.applied("batches of DataLoader", "prepared", f"the first {kept} again", self.at)

    def hand_out(self, number: int) -> Any:
        """A batch of an epoch, from 0."""
        return self._batches[number % len(self._batches)].hand_out()

    def _leave(self, because: str) -> None:
        self._on = False
        self._batches.clear()
        self._here.left_alone("DataLoader", because, self.at)


class _KeptBatch:
    """A batch that stays as it is: its tensors are handed out again while the script leaves them alone."""

    def __init__(self, batch: Any, pins: bool) -> None:
        self._batch = copied(batch)
        self._pins = pins
        self._handed: Dict[
            int, Any
        ] = {}  # by id of the tensor in the batch: what was handed out, its version

    def hand_out(self) -> Any:
        """The batch in fresh containers."""
        return copied(self._batch, self._tensor)

    def _tensor(self, tensor: Any, torch: Any) -> Any:
        handed, version = self._handed.get(id(tensor), (None, 0))
        if handed is not None and handed._version == version and handed.requires_grad == tensor.requires_grad:
            return handed
        fresh = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        if self._pins:
            fresh = fresh.pin_memory()
        if not fresh.is_inference():  # such a tensor does not tell whether it was changed
            self._handed[id(tensor)] = fresh, fresh._version
        return fresh


class _ReplayedEpoch:
    """Iterates over the loader's own batches until enough of them are kept, and over those from then on."""

    def __init__(
        self, here: Tweaking, store: _KeptBatches, steps: _StepCount, own: Optional[Iterator[Any]]
    ) -> None:
        self._store = store
        self._own = own
        self._steps = steps
        self._before = steps.steps
        self._trains = False
        self._given = 0
        self._keep = here.guarded(store.keep)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return self._store.length if self._own is None else len(self._own)  # type: ignore[arg-type]

    def __next__(self) -> Any:
        if self._store.is_full and (self._trains or self._own is None):
            self._own = None  # its workers end
            if self._given >= self._store.length:
                raise StopIteration
            batch = self._store.hand_out(self._given)
        else:
            assert self._own is not None
            try:
                batch = next(self._own)
            except BaseException as error:
                patch.cut(error)
                raise
            self._trains |= self._steps.steps > self._before
            if self._trains:
                self._keep(batch)
        self._given += 1
        return batch
