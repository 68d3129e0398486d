"""Compares the items of the training loader's dataset from epoch to epoch: ItemRepeatFacts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from perfdoctor.facts.data.training_loader import data_sets, trained_on
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.model.dataclass import dataclass
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.item_repeats import ItemRepeatsEvent

SURE = 8  # items: random changes in every second one escape a look at so many with a chance of 0.4 %


@dataclass(frozen=True)
class ItemRepeatFacts:
    """How many of the items that were looked at were prepared more than once, and how many of those alike."""

    again: int = 0
    alike: int = 0

    @property
    def same(self) -> bool:
        """Items are the same each time they are prepared."""
        return self.again >= SURE and self.alike == self.again

    @property
    def differ(self) -> bool:
        """Some items are others each time: random augmentation, as a rule."""
        return self.alike < self.again


@fact
def item_repeats(
    rank: RankRecords, looks: list[ItemRepeatsEvent], span: MeasuredSpan
) -> ItemRepeatFacts | None:
    """What the checksums of items tell; None where no loader was trained on.

    Loaders of one line may be for several data sets (clients, folds): then items of the same number differ.
    """
    loaders = trained_on(rank, span)
    if not loaders:
        return None
    fed = [event for event in looks if event.loader in loaders]
    of_line = _compared((None, event) for event in fed)
    if not of_line.differ:
        return of_line
    sets = data_sets(rank)
    of_sets = _compared((sets.get(event.loader or 0), event) for event in fed)
    return of_sets if of_sets.again else of_line


def _compared(looks: Iterable[tuple[object, ItemRepeatsEvent]]) -> ItemRepeatFacts:
    """The items of each data set, from look to look."""
    seen: dict[tuple[object, int], list[int]] = defaultdict(list)
    for data_set, event in looks:
        for index, checksum in zip(event.indices, event.checksums, strict=False):
            seen[data_set, index].append(checksum)
    again = [checksums for checksums in seen.values() if len(checksums) > 1]
    return ItemRepeatFacts(len(again), sum(len(set(checksums)) == 1 for checksums in again))
