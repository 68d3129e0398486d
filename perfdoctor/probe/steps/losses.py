"""The loss of each step: read at once on the CPU, later where it lives on a device.

Nothing waits for the device: its loss is copied into pinned host memory behind the work that makes it, and an
event tells when it is there. Where a kind of device has no events that are known to tell, as MPS, losses are
not read.
"""

from __future__ import annotations

import collections
from typing import Any, Callable, Deque, Dict, Optional, Tuple

from .. import accelerators, patch, script_signals
from ..looks.op_recording import unseen
from ..looks.transforms import is_batched
from ..moments import Moments
from ..recorder import Recorder
from ..wrapping import Args, Kwargs

NO_VALUE = ()  # was scaled, and is no single number
SLOTS = 64  # losses under way at a time; with all in use the next one is not recorded


class LossReader:
    """Adds the loss of each backward to the open row."""

    def __init__(self, moments: Moments, torch: Any) -> None:
        self.moments = moments
        self.torch = torch
        self.tensor = torch.Tensor
        self.on_device: Optional[DeviceLosses] = None
        self.several = False  # a backward began at a tensor of several numbers
        self.seen = False  # a loss that is not on the CPU
        self.dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
        self.is_profiled = torch._C._autograd._profiler_enabled
        self.function_modes = torch._C._len_torch_function_stack
        self.unscaled: Any = None  # the loss before a GradScaler multiplied it, or NO_VALUE
        self.read = patch.part_of_step("loss", self._read)
        self.add_unseen, self.unscaled_of = unseen(self._add), unseen(self._unscaled_of)

    def before_scale(self, args: Args, kwargs: Kwargs) -> None:
        """Keep the loss as it was before scaling, without its graph: a backward may never come."""
        outputs = args[1] if len(args) > 1 else kwargs.get("outputs")
        if not isinstance(outputs, self.torch.Tensor):
            return
        self.unscaled = NO_VALUE
        if type(outputs) is self.tensor:
            self.unscaled = self.unscaled_of(outputs)

    def _unscaled_of(self, outputs: Any) -> Any:
        return outputs.detach() if outputs.numel() == 1 else NO_VALUE

    def _read(self, recorder: Recorder, loss: Any, repeated: bool) -> None:
        """Add the loss of this backward, unless it is one of the same step again."""
        if self.unscaled is not None:
            loss, self.unscaled = self.unscaled, None
        if type(loss) is not self.tensor:
            if isinstance(loss, (list, tuple)) and len(loss) == 1:
                loss = loss[0]
                if is_batched(self.torch, loss):
                    return  # one of each sample
            if type(loss) is not self.tensor:
                return  # a fake or distributed tensor has no value to read here
        if self.function_modes() or self.dispatch_modes() or self.is_profiled():
            self.add_unseen(recorder, loss, repeated)  # else the script would see that it is read
        else:
            self._add(recorder, loss, repeated)

    def _add(self, recorder: Recorder, loss: Any, repeated: bool) -> None:
        if repeated:
            return
        if loss.is_cpu:
            if self.several and loss.numel() != 1:
                return
            try:
                value = loss.item()
            except RuntimeError as error:  # not one number: from now on its size is asked first
                script_signals.hand_back(error)
                self.several = True
                return
            if type(value) is float:  # a complex one is no loss
                known = recorder.loss
                recorder.loss = known + value if known == known else value  # not a number: there is none yet
            return
        if loss.numel() != 1 or not loss.dtype.is_floating_point:
            return
        if not self.seen:
            self.seen = True
            self._see(loss.device, recorder)
        if self.on_device is not None:
            self.on_device.add(loss, recorder.written)

    def _see(self, device: Any, recorder: Recorder) -> None:
        """The first loss on an accelerator."""
        used = accelerators.of_kind(self.torch, device.type)
        if used is None:
            return  # "meta": nothing is computed
        for tell in self.moments.device:
            tell(device)
        if used.kind != accelerators.MPS and hasattr(used.module, "Event"):
            self.on_device = DeviceLosses(self.torch, used, recorder.amend_loss)


class DeviceLosses:
    """Losses under way from one device to the rows they belong to."""

    def __init__(
        self, torch: Any, used: accelerators.Accelerator, amend: Callable[[int, float], None]
    ) -> None:
        self._torch = torch
        self._used = used
        self._amend = amend
        self._values: Any = None  # pinned, one for each slot
        self._events: Dict[Tuple[int, Any], Any] = {}  # by slot and device, to which an event belongs
        self._free: Deque[int] = collections.deque(range(SLOTS))
        self._under_way: Deque[Tuple[int, Any, int]] = collections.deque()  # (slot, event, row)

    def add(self, loss: Any, row: int) -> None:
        """Send the loss on its way to row number `row`."""
        if self._used.is_capturing:  # our copy would go into the graph, and a question ends it
            return
        self.collect()
        if not self._free:
            return
        if self._values is None:
            self._values = self._torch.empty(SLOTS, dtype=self._torch.float32, device="cpu", pin_memory=True)
        slot, device = self._free.popleft(), loss.device
        event = self._events.get((slot, device))
        if event is None:
            event = self._events[slot, device] = self._used.module.Event()
        self._values[slot].copy_(loss.detach().reshape(()), non_blocking=True)
        event.record(self._used.module.current_stream(device))  # the device's own, current or not
        self._under_way.append((slot, event, row))

    def collect(self) -> None:
        """Hand over every loss that has arrived."""
        while self._under_way:
            slot, event, row = self._under_way[0]
            if not event.query():
                return
            self._under_way.popleft()
            self._free.append(slot)
            self._amend(row, float(self._values[slot]))
