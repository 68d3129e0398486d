"""Events of devices that cannot be used."""

from __future__ import annotations

from . import Event


class DeviceErrorEvent(Event, name="device_error"):
    """The script ended by an error of its device's driver or runtime, whether it trained or not."""

    kind: str  # no-driver, old-driver, held or lost
