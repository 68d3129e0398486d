"""Whether the items of map-style datasets are the same each time they are prepared.

A few items of each dataset, chosen by their index, leave a checksum of what they hold in each of the first
epochs, whichever process prepares them. No item is kept.
"""

from __future__ import annotations

import random
import weakref
from collections import Counter
from typing import Any, Dict, List, Optional

from ...wire import rank_identity
from ...wire.events.item_repeats import ItemRepeatsEvent
from ..checksum import UNREADABLE, whole_checksum
from ..fetch_turns import NEVER
from ..looks.op_recording import unseen
from ..observer import Watch, observer
from ..session import Session
from ..wrapping import Args, Kwargs

NAME = "item_repeats"
ITEMS = 32  # of a dataset: a change in one item of ten escapes two looks at so many with a chance of 0.1 %
RANKS = 16  # with more, hardly an item comes to a rank twice
EPOCHS = 4  # that are looked at: a shuffled part of the items goes to each rank, and comes again seldom
LOADERS_MAX = 64  # of a script that makes one for each epoch, or for each client in each round


class Fetched:
    """The items that one fetcher prepares, before they are collated."""

    def __init__(self, session: Session, loader: int, fetcher: Any, chosen: List[int]) -> None:
        self.session = session
        self.loader = loader
        self.in_batches: bool = fetcher.auto_collation
        self.chosen = set(chosen)
        self.left = ITEMS  # a sampler may draw one item again and again
        self.asked: Any = None  # the indices of a batch with chosen ones among them

    def asks(self, indices: Any) -> None:
        """A batch, or a single item, is about to be prepared."""
        self.asked = None
        if not self.in_batches:
            indices = [indices]
        if self.left and type(indices) in (list, tuple) and indices and hasattr(indices[0], "__index__"):
            self.asked = None if self.chosen.isdisjoint(indices) else indices

    def before_collate(self, args: Args, kwargs: Kwargs) -> None:
        """The items are there: write down the checksums of the chosen ones."""
        indices, self.asked = self.asked, None
        if indices is None:
            return
        items = args[0] if self.in_batches else args
        if type(items) not in (list, tuple) or len(items) != len(indices):
            return
        seen: Dict[int, int] = {}
        for index, item in zip(indices, items):
            if self.left and index in self.chosen:
                self.left -= 1
                if not self.left:
                    self.chosen.clear()  # nobody waits for them any more
                checksum = whole_checksum(item)
                if checksum is not UNREADABLE:
                    seen[int(index)] = checksum
        if seen and self.session.tag is not None:
            self.session.append(
                ItemRepeatsEvent(loader=self.loader, indices=list(seen), checksums=list(seen.values()))
            )

    def after_collate(self, token: None, args: Args, result: Any) -> None:
        """Nothing is left to do."""


class ItemRepeats:
    """The fetchers of one process whose items are looked at."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.map_style = watch.torch.utils.data._utils.fetch._MapDatasetFetcher
        self.fetchers: weakref.WeakKeyDictionary[Any, Fetched] = weakref.WeakKeyDictionary()
        self.epochs: Counter[int] = Counter()  # in this process, by loader

    def made(self, loader: int, epochs_before: int, fetcher: Any) -> None:
        """Look at the items of a new fetcher, if it is one of its loader's first."""
        epoch = max(epochs_before, self.epochs[loader])
        self.epochs[loader] += 1
        if not 0 < loader <= LOADERS_MAX or epoch >= EPOCHS or not isinstance(fetcher, self.map_style):
            return
        items = self.watch.steps.sizes.of(fetcher.dataset)
        if items:
            seen = Fetched(self.watch.session, loader, fetcher, chosen(items))
            fetches = self.watch.steps.fetches
            fetches.add_collate(fetcher, unseen(seen.before_collate), seen.after_collate, NAME)
            fetches.wait_for(fetcher, seen.chosen)
            self.fetchers[fetcher] = seen

    def before_fetch(self, args: Args, kwargs: Kwargs) -> None:
        """A fetcher is asked for a batch."""
        seen = self.fetchers.get(args[0])
        if seen is not None:
            seen.asks(args[1])

    def after_fetch(self, token: None, args: Args, result: Any) -> None:
        """Nothing is left to do."""


def chosen(items: int) -> List[int]:
    """The indices to look at, the same ones in each process; more where several ranks share the items."""
    world: Optional[Any] = rank_identity.identity().get("world")
    count = ITEMS * max(1, min(int(world or 1), RANKS))
    return random.Random(items).sample(range(items), min(items, count))


@observer
def item_repeats(watch: Watch) -> None:
    """Look at a few items of each dataset, in the first epochs of its loader."""
    repeats = ItemRepeats(watch)
    watch.on_fetcher(NAME, repeats.made)
    watch.on_fetch(NAME, repeats.before_fetch, repeats.after_fetch, lambda: NEVER)
