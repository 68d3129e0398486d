"""Padding: how long the sequences in a batch are, and how long the rows that hold them.

A few batches of each loader are looked at, on the CPU, before they are copied anywhere; where loaders deliver
no tensors, or there is none, what models are called with. Rows are read as Python numbers, or as arrays:
operations of torch's would be seen by the script's own profilers and modes, and land on its default device.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterator, List, Tuple

from ...wire.events.loaders import PaddingEvent
from ..loader.batch_content import leaves
from ..observer import Watch, observer
from ..session import Session
from ..tensor_elements import elements_of
from ..wrapping import Args, Kwargs

Rows = List[List[int]]

MODELS = 0  # stands for the number of a loader: what models are called with
SAMPLES_MAX = 100  # of a loader: thousands of rows tell what they are like
ROWS_MAX, ELEMENTS_MAX = 64, 16_384  # read of one tensor, in about a millisecond
SHORTEST = 16  # elements of a row: shorter ones are rather the columns of a table, and cheap
TRUTH = {0, 1}  # what masks hold
CONFIRMED = 8  # rows of frames that are read where a mask or lengths tell where they end


class PaddingSamples:
    """The batches of one process that are read."""

    def __init__(self, session: Session, torch: Any) -> None:
        self.session = session
        self.torch = torch
        self.integers = (torch.int64, torch.int32)  # what an embedding takes
        self.floats = (torch.float32, torch.float64, torch.float16)
        self.samples: Counter[int] = Counter()
        self.fed = False  # loaders deliver tensors: calls of a model's parts would tell no more

    def called(self, args: Args, kwargs: Kwargs) -> None:
        """A model that trains is called, in a step in which calls are watched."""
        if not self.fed:
            self.sample(MODELS, (args[1:], kwargs))

    def sample(self, loader: int, batch: Any) -> None:
        """Write down what rows of integers hold; where they are only beside features, how long those are."""
        if self.samples[loader] >= SAMPLES_MAX:
            return
        self.samples[loader] += 1
        found = leaves(batch, self.torch.Tensor)
        self.fed = self.fed or (loader != MODELS and bool(found))
        rows = {place: leaf for place, leaf in enumerate(found) if self._has_rows(leaf)}
        if sum(map(self._weight, found)) > sum(leaf.numel() for leaf in rows.values()):
            self._sample_frames(loader, found)
            return
        read = {place: _read(leaf) for place, leaf in rows.items()}
        masks = [values for values in read.values() if set().union(*values) <= TRUTH]
        for place, values in read.items():
            if values and values not in masks:
                self.session.write(PaddingEvent(loader=loader, place=place, **measured(values, masks)))

    def _sample_frames(self, loader: int, found: List[Any]) -> None:
        """Write down how long sequences of frames are that a mask or a tensor of lengths tells the ends of.

        They are the largest tensor of the batch, `[batch, time, features]` or `[batch, features, time]`.
        """
        place, leaf = max(enumerate(found), key=lambda one: int(one[1].numel()))
        if not self._has_frames(leaf):
            return
        step = -(-len(leaf) // ROWS_MAX)
        with self.torch._C.DisableTorchFunction():  # a mode of the script's would see it
            elements = elements_of(leaf)
            if elements is None:
                return
            frames = elements[::step]
            beside = [one[::step].tolist() for one in found if self._may_tell(one, leaf)]
        for along in (1, 2):
            width = leaf.shape[along]
            in_time = frames if along == 1 else frames.swapaxes(1, 2)
            for lengths, leading in _ends(beside, width) if width >= SHORTEST else ():
                if _end_there(in_time, lengths, leading):
                    told = {"width": width, "lengths": lengths, "leading": leading, "masked": True}
                    event = PaddingEvent(loader=loader, place=place, fill=None, inside=0, kinds=0, **told)
                    self.session.write(event)
                    return

    def _has_frames(self, leaf: Any) -> bool:
        """Whether a tensor may hold sequences of features, and can be read as an array."""
        torch = self.torch
        plain = type(leaf) is torch.Tensor and leaf.is_cpu and leaf.layout == torch.strided
        return plain and leaf.dtype in self.floats and leaf.dim() == 3 and not leaf.requires_grad

    def _may_tell(self, leaf: Any, frames: Any) -> bool:
        """Whether a tensor may mask the frames of a batch, or hold their numbers."""
        plain = type(leaf) is self.torch.Tensor and leaf.is_cpu and leaf.layout == self.torch.strided
        return plain and leaf.dim() in (1, 2) and len(leaf) == len(frames) and leaf.numel() <= frames.numel()

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


def _ends(beside: List[Any], width: int) -> Iterator[Tuple[List[int], bool]]:
    """How long sequences are by what may mask them or count their frames, and if they stand at the end."""
    for values in beside:
        if not isinstance(values[0], list):
            if all(isinstance(value, int) and 0 < value <= width for value in values):
                yield values, False
        elif len(values[0]) == width and set().union(*values) <= TRUTH:
            for leading in (False, True):
                rows = [row[::-1] for row in values] if leading else values
                kept = rows[0][0]  # the first frame of a sequence is none that fills it up
                lengths = [row.count(kept) for row in rows]
                marked = ([kept] * length + [1 - kept] * (width - length) for length in lengths)
                if all(row == each for row, each in zip(rows, marked)):
                    yield lengths, leading


def _end_there(frames: Any, lengths: List[int], leading: bool) -> bool:
    """Whether what lies beyond the ends of sequences is one frame again and again, and no other is before."""
    padded = [(row, length) for row, length in zip(frames, lengths) if length < len(row)]
    for row, length in padded[:CONFIRMED]:
        row = row[::-1] if leading else row
        if length == 0 or (row[length:] != row[length]).any() or (row[length - 1] == row[length]).all():
            return False
    return True


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
