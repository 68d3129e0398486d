"""The loss of a step that lives on a device, read later, so that nothing waits for the device.

Each loss is copied into pinned host memory behind the work that makes it; an event tells when it is there.
"""

from __future__ import annotations

import collections
from typing import Any, Callable, Deque, List, Optional, Tuple

SLOTS = 64  # losses under way at a time; with all in use the next one is not recorded


class DeviceLosses:
    """Losses under way from one CUDA device to the rows they belong to."""

    def __init__(self, torch: Any, amend: Callable[[int, float], None]) -> None:
        self._torch = torch
        self._amend = amend
        self._slots: Optional[List[Tuple[Any, Any]]] = None  # (pinned scalar, event)
        self._free: Deque[int] = collections.deque(range(SLOTS))
        self._under_way: Deque[Tuple[int, int]] = collections.deque()  # (slot, row)

    def add(self, loss: Any, row: int) -> None:
        """Send the loss on its way to row number `row`."""
        self.collect()
        cuda = self._torch.cuda
        if not self._free or cuda.is_current_stream_capturing():  # a graph capture must not see our copy
            return
        if self._slots is None:
            values = self._torch.empty(SLOTS, dtype=self._torch.float32, pin_memory=True)
            self._slots = [(values[slot], cuda.Event()) for slot in range(SLOTS)]
        slot = self._free.popleft()
        value, event = self._slots[slot]
        value.copy_(loss.detach().reshape(()), non_blocking=True)
        event.record()
        self._under_way.append((slot, row))

    def collect(self) -> None:
        """Hand over every loss that has arrived."""
        while self._under_way and self._slots is not None:
            slot, row = self._under_way[0]
            value, event = self._slots[slot]
            if not event.query():
                return
            self._under_way.popleft()
            self._free.append(slot)
            self._amend(row, float(value))
