"""The accelerators that hold tensors of a process as its optimizers step for the first time."""

from __future__ import annotations

from typing import Any, List, Optional

from ...wire.events.script import TrainedDevicesEvent
from .. import accelerators
from ..observer import Watch, observer


class TrainedDevices:
    """Which devices of one kind this process trains on: by then each holds parameters and their gradients."""

    def __init__(self, session: Any, torch: Any) -> None:
        self._session = session
        self._torch = torch
        self._used: Optional[accelerators.Accelerator] = None
        self._told: List[int] = []

    def device_seen(self, device: Any) -> None:
        """Note the kind of device that trains."""
        self._used = self._used or accelerators.of_kind(self._torch, device.type)

    def optimizer_seen(self, optimizer: Any, number: int) -> None:
        """Tell of the devices, and once more where another optimizer has others as well."""
        used = self._used
        if used is None:
            return
        numbers = range(used.ask("device_count") or 0)
        held = [number for number in numbers if used.ask("memory_allocated", number)]
        if held and held != self._told:
            self._told = held
            uuids = [_uuid(used, number) for number in held]
            self._session.write(TrainedDevicesEvent(devices=held, uuids=uuids))


def _uuid(used: accelerators.Accelerator, number: int) -> str:
    """What its driver calls the device; "" where torch does not tell."""
    return str(getattr(used.ask("get_device_properties", number), "uuid", None) or "")


@observer
def trained_devices(watch: Watch) -> None:
    """Tell which of the devices that a process can see it uses: on a shared machine others use the rest."""
    devices = TrainedDevices(watch.session, watch.torch)
    watch.on_device("trained_devices", devices.device_seen)
    watch.on_optimizer("trained_devices", devices.optimizer_seen)
