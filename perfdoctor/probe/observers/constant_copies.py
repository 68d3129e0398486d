"""Which tensors of the host each step copies to a device anew, although they never change.

Copies are looked at in a few pairs of steps in a row: a batch that is kept in memory comes again at some
later step, but not in the next one, unless there is no other.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ...wire.events.constant_copies import ConstantCopiesLineEvent, ConstantCopiesLookEvent
from .. import patch
from ..looks.calls import UPDATES_MAX, disturb
from ..looks.constants import some_elements
from ..looks.seen_calls import SeenCall, costliest_lines, seconds_of
from ..observer import Watch, observer
from ..recorder import Recorder
from ..user_frames import user_line

NAME = "constant_copies"
PAIRS = 8  # in a whole run
LEAST_BYTES = 65_536  # of one copy: smaller ones cost their launch, hardly their bytes
COPIES_MAX = 1_000  # of one step that are looked at


class HostCopy(SeenCall):
    """One copy of a tensor that the step before copied, too."""

    __slots__ = ("bytes", "pinned")

    def __init__(self, ns: int, size: int, pinned: bool) -> None:
        super().__init__("to", ns)
        self.bytes = size
        self.pinned = pinned


class StepTransfers:
    """The copies of one looked-at step, and with `earlier` those that repeat copies of that step."""

    def __init__(self, torch: Any, earlier: Optional[StepTransfers] = None) -> None:
        self.torch = torch
        self.modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
        self.weak_reference = torch.multiprocessing.reductions.StorageWeakRef
        self.earlier = earlier
        self.sources: Dict[Any, Any] = {}  # what was copied, and its memory for as long as that is there
        self.seen = 0
        self.repeated: List[HostCopy] = []

    def add(self, tensor: Any, result: Any, ns: int) -> None:
        """A tensor was copied to a device."""
        size = result.numel() * result.element_size()
        if (
            size < LEAST_BYTES
            or self.seen >= COPIES_MAX
            or type(tensor) is not self.torch.Tensor
            or self.modes()
        ):
            # A mode of the script's would see what is read. Parameters are kept on the host for a reason,
            # and other subclasses may hold more than their elements.
            return
        self.seen += 1
        try:
            with self.torch._C.DisableTorchFunction():
                key, alive = self._source(tensor)
                pinned = tensor.is_pinned()
        except RuntimeError:
            return  # in inference mode there is no version, in a transform no memory, and others may write it
        if self.earlier is not None and self.earlier.holds(key):
            copy = HostCopy(ns, size, pinned)
            copy.line = user_line()
            self.repeated.append(copy)
        self.sources[key] = alive

    def holds(self, key: Any) -> bool:
        """Whether just this was copied in this step; its memory is still there, and so nobody else's."""
        alive = self.sources.get(key)
        return alive is not None and not alive.expired()

    def _source(self, tensor: Any) -> Any:
        """(what is equal for the same elements in the same place, a weak reference to their memory).

        Some elements are compared as well: `tensor.data` writes without raising the version.
        """
        storage = tensor.untyped_storage()
        alive = self.weak_reference(storage)
        if storage.is_shared() or not storage.resizable():
            raise RuntimeError("NumPy or another process may write here without raising the version")
        place = (alive.cdata, tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        return (place, tensor._version, some_elements(tensor)), alive


class ConstantCopyLooks:
    """The looked-at pairs of steps of one process."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.steps = watch.steps
        self.moments = watch.moments
        self.trains = False  # a device does
        self.asked = False
        self.pairs = 0
        self.updates = 0  # since a pair was asked for, or since a step of it began
        self.step: Optional[StepTransfers] = None  # under way
        self.begin_ns = 0
        self.border = patch.guarded(NAME, self._at_border)
        self.copied = patch.guarded(NAME, self._copied)

    def device_seen(self, device: Any) -> None:
        """A device trains."""
        self.trains = self.trains or device.type != "cpu"

    def ask(self, recorder: Recorder, loss: Any) -> None:
        """Before some backwards: look at the two steps after this one."""
        if self.asked or not self.trains or self.pairs >= PAIRS:
            return
        self.asked = True
        self.updates = 0
        self.moments.update = [*self.moments.update, self.border]

    def _at_border(self, recorder: Recorder, optimizer: int) -> None:
        """A step ends with the optimizer that came last to its first update: it ends a GAN's step."""
        self.updates += 1
        if self.step is not None:
            disturb(recorder)
        over = recorder.off or recorder.held or self.watch.profilers.busy(self.watch.torch)
        if not over and optimizer != len(self.steps.updates.numbers) and self.updates < UPDATES_MAX:
            return
        if over:
            self._finish()
        elif self.step is None:
            disturb(recorder)
            self._next(recorder)
            self.moments.copied = [*self.moments.copied, self.copied]
        elif self.step.earlier is None:
            self._next(recorder)
        else:
            self._tell(self.step, recorder)
            self._finish()

    def _next(self, recorder: Recorder) -> None:
        """The first or the second step of a pair begins."""
        self.step = StepTransfers(self.watch.torch, self.step)
        self.updates = 0
        self.begin_ns = recorder.since

    def _copied(self, tensor: Any, result: Any, ns: int) -> None:
        if self.step is not None:
            self.step.add(tensor, result, ns)

    def _tell(self, step: StepTransfers, recorder: Recorder) -> None:
        self.pairs += 1
        self.watch.write(
            ConstantCopiesLookEvent(
                look=self.pairs,
                step_s=(recorder.since - self.begin_ns) / 1e9,
                copies=step.seen,
                constants=len(step.repeated),
            )
        )
        for copies in costliest_lines(step.repeated):
            self.watch.write(
                ConstantCopiesLineEvent(
                    look=self.pairs,
                    copies=len(copies),
                    bytes=sum(copy.bytes for copy in copies),
                    seconds=seconds_of(copies),
                    pinned=all(copy.pinned for copy in copies),
                    at=copies[0].line,
                )
            )

    def _finish(self) -> None:
        """The pair is over, or cannot be had; what has been is forgotten."""
        self.step = None
        self.asked = False
        self.moments.update = [call for call in self.moments.update if call is not self.border]
        self.moments.copied = [call for call in self.moments.copied if call is not self.copied]


@observer
def constant_copies(watch: Watch) -> None:
    """Look for tensors that each step copies to a device, and nobody changes, in a few pairs of steps."""
    copies = ConstantCopyLooks(watch)
    watch.on_device(NAME, copies.device_seen)
    watch.before_some_backwards(NAME, copies.ask)
