"""In which dimension of a batch its samples lie, as far as the loader tells that delivers it."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ...wire.events.training import BatchLayoutEvent
from ..session import Session
from ..steps.batch_layout import SEQUENCES
from ..steps.samples import SampleCount
from .batch_content import first_sizes, leaves
from .dataset_sizes import DatasetSizes
from .epoch import Epoch

EVENTS_MAX = 20  # written: the lengths of so many batches tell the mean


class BatchDimensions:
    """What the batches of each loader have shown. A loader's word counts for more than a model's."""

    def __init__(self, session: Session, samples: SampleCount, sizes: DatasetSizes, tensor: type) -> None:
        self.session = session
        self.samples = samples
        self.sizes = sizes
        self.tensor = tensor
        self.written = 0
        self.known: Dict[int, int] = {}  # by loader: the dimension of its samples

    def count(self, count: int, batch: Any, epoch: Optional[Epoch]) -> int:
        """The samples of a batch of which so many were counted in its first dimension."""
        samples = self.samples
        samples.of_one = epoch is not None and epoch.batch_size == 1
        samples.sizes = None
        sizes = first_sizes(batch, self.tensor)
        if sizes is None:
            return count
        number = epoch.loader if epoch is not None else 0
        if epoch is not None and number not in self.known:
            dimension = _by_batch_size(sizes, epoch, self.sizes) if self._may_be_text(batch) else 0
            if dimension is not None:
                self.known[number] = dimension
                samples.loader_tells = samples.loader_tells or dimension == 1
        if number in self.known:
            if self.known[number] == 0:
                return count
            self._tell(sizes, batch)
            return sizes[1]
        samples.sizes = sizes
        return samples.counted(count, sizes, is_bounded=epoch is not None and epoch.batch_size > 0)

    def _may_be_text(self, batch: Any) -> bool:
        """Whether time may come first: in rows of numbers each row is a sample, whatever the batch size."""
        first = leaves(batch, self.tensor)[0]
        integers = not (first.is_floating_point() or first.is_complex())
        return first.dim() in SEQUENCES and (integers or first.dim() > 2)

    def _tell(self, sizes: Tuple[int, int], batch: Any) -> None:
        """Write down how long the sequences are of some batches with time first."""
        if self.written >= EVENTS_MAX:
            return
        self.written += 1
        first = leaves(batch, self.tensor)[0]
        self.session.write(
            BatchLayoutEvent(
                dimension=1,
                rows=sizes[0],
                columns=sizes[1],
                integers=not (first.is_floating_point() or first.is_complex()),
                told_by="DataLoader",
            )
        )


def _by_batch_size(sizes: Tuple[int, int], epoch: Epoch, datasets: DatasetSizes) -> Optional[int]:
    """Where one dimension alone is as large as the loader's batches.

    The last batch of an epoch is smaller, and may have as many columns: the first batch of all is no such
    one, if the dataset holds enough, and none has more samples than the loader puts together.
    """
    size = epoch.batch_size
    if not size or sizes[0] == sizes[1] or size not in sizes:
        return None
    if sizes[0] == size:
        return 0
    if sizes[0] > size:
        return 1
    is_first = not epoch.before and not epoch.batches
    items = datasets.of(getattr(epoch.iterator(), "_dataset", None)) if is_first else None
    return 1 if items is not None and items >= size else None
