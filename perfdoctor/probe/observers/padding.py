"""Padding: how long the sequences in a batch are, and how long the rows that hold them.

A few batches of each loader are looked at, on the CPU, before they are copied anywhere; where loaders deliver
no tensors, or there is none, what models are called with. Rows are read as Python numbers: operations of
torch's would be seen by the script's own profilers and modes, and land on its default device.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Tuple

from ...wire.events.loaders import PaddingEvent
from ..loader.batch_content import leaves
from ..observer import Watch, observer
from ..session import Session
from ..wrapping import Args, Kwargs

Rows = List[List[int]]

MODELS = 0  # stands for the number of a loader: what models are called with
SAMPLES_MAX = 100  # of a loader: thousands of rows tell what they are like
ROWS_MAX, ELEMENTS_MAX = 64, 16_384  # read of one tensor, in about a millisecond
SHORTEST = 16  # elements of a row: shorter ones are rather the columns of a table, and cheap
TRUTH = {0, 1}  # what masks hold


class PaddingSamples:
    """The batches of one process that are read."""

    def __init__(self, session: Session, torch: Any) -> None:
        self.session = session
        self.torch = torch
        self.integers = (torch.int64, torch.int32)  # what an embedding takes
        self.samples: Counter[int] = Counter()
        self.fed = False  # loaders deliver tensors: calls of a model's parts would tell no more

    def called(self, args: Args, kwargs: Kwargs) -> None:
        """A model that trains is called, in a step in which calls are watched."""
        if not self.fed:
            self.sample(MODELS, (args[1:], kwargs))

    def sample(self, loader: int, batch: Any) -> None:
        """Write down what rows of integers hold, unless they are only beside images, sound or features."""
        if self.samples[loader] >= SAMPLES_MAX:
            return
        self.samples[loader] += 1
        found = leaves(batch, self.torch.Tensor)
        self.fed = self.fed or (loader != MODELS and bool(found))
        rows = {place: leaf for place, leaf in enumerate(found) if self._has_rows(leaf)}
        if sum(map(self._weight, found)) > sum(leaf.numel() for leaf in rows.values()):
            return
        read = {place: _read(leaf) for place, leaf in rows.items()}
        masks = [values for values in read.values() if set().union(*values) <= TRUTH]
        for place, values in read.items():
            if values and values not in masks:
                self.session.write(PaddingEvent(loader=loader, place=place, **measured(values, masks)))

    def _has_rows(self, leaf: Any) -> bool:
        """Whether a tensor may hold sequences or mask them; a fake one, and its like, has no elements."""
        torch = self.torch
        return (
            type(leaf) is torch.Tensor
            and leaf.is_cpu
            and leaf.layout == torch.strided
            and (leaf.dtype in self.integers or leaf.dtype == torch.bool)
            and leaf.dim() == 2
            and len(leaf) > 0
            and SHORTEST <= leaf.shape[1] <= ELEMENTS_MAX
        )

    def _weight(self, leaf: Any) -> int:
        """Elements of what a model computes on besides sequences, their masks and their labels."""
        small = leaf.dtype == self.torch.bool or (leaf.dtype in self.integers and leaf.dim() <= 2)
        return 0 if small else int(leaf.numel())


@observer
def padding(watch: Watch) -> None:
    """Read a few batches of each loader; without loaders, what models are called with."""
    samples = PaddingSamples(watch.session, watch.torch)
    watch.on_batch("padding", samples.sample)
    watch.on_sampled_call("padding", samples.called)


def _read(leaf: Any) -> Rows:
    """Some of a tensor's rows, evenly spread; none where it only stands for one that a transform computes."""
    most = max(1, min(ROWS_MAX, ELEMENTS_MAX // leaf.shape[1]))
    try:
        rows: Rows = leaf[:: -(-len(leaf) // most)].tolist()
    except RuntimeError:
        return []
    return rows


def measured(rows: Rows, masks: List[Rows]) -> Dict[str, Any]:
    """What fills the rows at one end, how many elements are left of each without it, and what those are.

    `inside`: how often the same value stands among them. `kinds`: different values there. `masked`: one of
    the masks, of the same shape, marks exactly those elements, or exactly the others.
    """
    width = len(rows[0])
    right, at_right = _filled(rows)
    left, at_left = _filled([row[::-1] for row in rows])
    leading = sum(at_left) < sum(at_right)
    fill, lengths = (left, at_left) if leading else (right, at_right)
    return {
        "width": width,
        "lengths": lengths,
        "fill": fill,
        "leading": leading,
        "inside": sum(row.count(fill) for row in rows) - sum(width - length for length in lengths),
        "kinds": len(set().union(*rows)) - 1,
        "masked": any(_marks(mask, width, lengths, leading) for mask in masks),
    }


def _filled(rows: Rows) -> Tuple[int, List[int]]:
    """What most rows end with, and the length of each without it."""
    fill = Counter(row[-1] for row in rows).most_common(1)[0][0]
    return fill, [_length(row, fill) for row in rows]


def _length(row: List[int], fill: int) -> int:
    length = len(row)
    while length and row[length - 1] == fill:
        length -= 1
    return length


def _marks(mask: Rows, width: int, lengths: List[int], leading: bool) -> bool:
    marked = [[1] * length + [0] * (width - length) for length in lengths]
    if leading:
        marked = [row[::-1] for row in marked]
    return mask == marked or mask == [[1 - value for value in row] for row in marked]
