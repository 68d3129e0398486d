"""In which dimension of a batch its samples lie, as the modules inside a model show it.

A batch of sequences is [samples, time, ...] or [time, samples, ...], and looks the same from outside. So the
first calls of a model that trains are looked at from inside: recurrent layers and attention say by
`batch_first` what they take for time, others show by their shapes which dimension they keep apart.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from ...wire.events.training import BatchLayoutEvent
from .. import patch
from ..containers import is_a
from ..loader.batch_content import leaves
from ..looks.op_recording import unseen
from ..session import Session
from ..wrapping import Args, Kwargs
from .samples import SampleCount

Shape = Tuple[int, ...]

NAME = "batch_layout"

CALLS_MAX = 4  # of a model that are looked at: its first batches may be square, or no tensors
EVENTS_MAX = 20  # written: scripts may make a model a step
SEQUENCES = (2, 3)  # dimensions of a batch of sequences: of numbers, or of vectors
FRAMES = 5  # at least, of one of sequences of pictures


class BatchLayouts:
    """What is known of the batches that the models of one process are called with."""

    def __init__(self, session: Session, samples: SampleCount, torch: Any) -> None:
        self.session = session
        self.samples = samples
        self.torch = torch
        self.written = 0

    def tell(self, look: LayoutLook, dimension: Optional[int]) -> None:
        """Write down what is not as usual."""
        if dimension != 0:
            self._write(
                BatchLayoutEvent(
                    dimension=dimension,
                    rows=look.rows,
                    columns=look.columns,
                    integers=look.integers,
                    told_by=look.told_by,
                )
            )

    def tell_of_one(self, given: Any) -> None:
        """Write down how many rows a model is given, of what a loader takes for one sample, if several.

        They may be the samples of a batch that is one item of the dataset, or the parts of a sample.
        """
        if not is_a(given, self.torch.Tensor) or given.is_nested or given.dim() < 2:
            return
        rows, columns = int(given.shape[0]), int(given.shape[1])
        if 1 not in (rows, columns):
            integers = not (given.is_floating_point() or given.is_complex())
            self._write(
                BatchLayoutEvent(
                    dimension=None, rows=rows, columns=columns, integers=integers, told_by=None, of_one=True
                )
            )

    def _write(self, event: BatchLayoutEvent) -> None:
        if self.written < EVENTS_MAX:
            self.written += 1
            self.session.write(event)


class LayoutLook:
    """The first calls of one model, seen from inside: it stands in for a watcher of those calls."""

    def __init__(self, layouts: BatchLayouts) -> None:
        self.layouts = layouts
        self.nn = layouts.torch.nn
        self.begin = patch.guarded(NAME, unseen(self._begin))
        self.enter = patch.guarded(NAME, unseen(self._enter))
        self.end = patch.guarded(NAME, self._end)
        self.calls = 0
        self.rows = self.columns = 0  # the first two sizes of the batch; equal ones tell nothing
        self.integers = self.sequences = False
        self.told: List[int] = []  # the dimension of the samples, as modules told it
        self.told_by: Optional[str] = None  # the first that told it
        self.pooled = False  # one was given a row for each of the first dimension
        self.frames = False  # the batch holds sequences of pictures
        self.merged = False  # one was given all of them in a row

    @property
    def shows(self) -> bool:
        """Whether the call was given the batch that is counted, in two dimensions that can be told apart."""
        return self.rows != self.columns

    def _begin(self, args: Args, kwargs: Kwargs) -> bool:
        """An outermost call begins: whether there is anything to see inside it."""
        self.calls += 1
        tensor, samples = self.layouts.torch.Tensor, self.layouts.samples
        self.told, self.told_by, self.pooled, self.merged = [], None, False, False
        self.rows = self.columns = 0
        if samples.of_one:
            self.layouts.tell_of_one(next(iter((*args[1:], *kwargs.values())), None))
        given = leaves((args[1:], kwargs), tensor) if samples.loader_delivers else list(args[1:2])
        for batch in given:
            if is_a(batch, tensor) and not batch.is_nested and batch.dim() > 1:
                rows, columns = int(batch.shape[0]), int(batch.shape[1])
                if not samples.loader_delivers or (rows, columns) == samples.sizes:
                    self.rows, self.columns = rows, columns
                    self.integers = not (batch.is_floating_point() or batch.is_complex())
                    self.frames = batch.dim() >= FRAMES
                    self.sequences = batch.dim() in SEQUENCES and (self.integers or batch.dim() > 2)
                    break
        if self.shows:
            self.enter(args, kwargs)
        return self.shows

    def _enter(self, args: Args, kwargs: Kwargs) -> None:
        """Any module is called, the outermost one first."""
        module = args[0]
        given = args[1] if len(args) > 1 else kwargs.get("query", kwargs.get("input"))
        dimension = self._told(module, given)
        if dimension is not None:
            self.told_by = self.told_by or type(module).__name__
            self.told.append(dimension)

    def _end(self, result: Any) -> Tuple[bool, Optional[int]]:
        """The outermost call is over: whether that settles it, and the dimension of samples; None: unknown.

        Without a word of a module's, rows of numbers may be samples or moments of time, and so may pictures
        that a script puts together itself. A call that failed has no result, and did not show everything.
        """
        if not self.shows or (result is None and self.calls < CALLS_MAX):
            return self.calls >= CALLS_MAX, 0
        if self.told:
            dimension = self.told[0] if len(set(self.told)) == 1 else None
        else:
            unknown = self.sequences and not self.pooled and min(self.rows, self.columns) > 1
            gathered = self.merged and not self.layouts.samples.loader_delivers
            dimension = None if unknown or gathered else 0
        self.layouts.tell(self, dimension)
        return True, dimension

    def _told(self, module: Any, given: Any) -> Optional[int]:
        """The dimension of the samples, by what one module is given."""
        nn = self.nn
        if isinstance(module, (nn.RNNBase, nn.MultiheadAttention)):
            return self._of_sequences(module, given) if self._is_torchs(module) else None
        if not is_a(given, self.layouts.torch.Tensor) or given.is_nested:
            return None
        shape = tuple(given.shape)
        self.merged |= self.frames and len(shape) > 1 and shape[0] == self.rows * self.columns
        if isinstance(module, nn.RNNCellBase):
            return self._of_one(shape[0]) if len(shape) == 2 else None
        if isinstance(module, nn.modules.conv._ConvNd):  # [samples, channels, time or pixels]
            return self._of_pair(shape[0], shape[-1]) if len(shape) > 2 else None
        if isinstance(module, nn.Embedding):
            return self._of_positions(shape) if self.integers else None
        if len(shape) == 4 and shape[2] == shape[3]:  # [samples, heads, time, time]: what attention weighs
            exact = shape[3] in (self.rows, self.columns)
            return self._of_pair(shape[0], shape[3]) if exact else None
        self.pooled = self.pooled or (len(shape) == 2 and shape[0] == self.rows and self._is_other(shape))
        return None

    def _is_other(self, shape: Shape) -> bool:
        """Whether rows of this shape are no longer those of the batch itself."""
        return not self.integers or shape[1] != self.columns

    def _is_torchs(self, module: Any) -> bool:
        """Whether a layer takes what it is called with: a script's own `forward` may turn it first."""
        nn, forward = self.nn, type(module).forward
        return any(forward is kind.forward for kind in (nn.LSTM, nn.GRU, nn.RNN, nn.MultiheadAttention))

    def _of_sequences(self, module: Any, given: Any) -> Optional[int]:
        """By a layer that says which dimension it takes for time; packed sequences tell themselves."""
        packed = getattr(given, "batch_sizes", None)
        if packed is not None:
            return self._of_pair(int(packed[0]), len(packed), shorter=True)
        if not is_a(given, self.layouts.torch.Tensor) or given.is_nested or given.dim() != 3:
            return None
        first, second = int(given.shape[0]), int(given.shape[1])
        return self._of_pair(first, second) if module.batch_first else self._of_pair(second, first)

    def _of_pair(self, samples: int, time: int, shorter: bool = False) -> Optional[int]:
        """By how many samples a module takes what it is given for, and moments of time.

        Time may be cut short on the way; where samples are not the rows, both have to be as in the batch.
        """
        if samples == self.rows:
            return 0
        as_long = time == self.rows or (shorter and time <= self.rows)
        return 1 if samples == self.columns and as_long else None

    def _of_one(self, samples: int) -> Optional[int]:
        return 0 if samples == self.rows else 1 if samples == self.columns else None

    def _of_positions(self, shape: Shape) -> Optional[int]:
        """By numbers of the positions of a sequence, which are looked up once for all samples."""
        if shape in ((self.columns,), (1, self.columns)):
            return 0
        return 1 if shape == (self.rows, 1) else None
