from __future__ import annotations

from types import SimpleNamespace

from perfdoctor.probe.observers.trained_devices import TrainedDevices


def seen(allocated, kind="cuda", times=1):
    """What is told of devices that hold so many bytes each."""
    told = []
    of_kind = SimpleNamespace(
        device_count=lambda: len(allocated),
        memory_allocated=allocated.__getitem__,
        get_device_properties=lambda number: SimpleNamespace(uuid=f"uuid-{number}"),
    )
    torch = SimpleNamespace(cuda=of_kind)
    devices = TrainedDevices(SimpleNamespace(write=told.append), torch)
    if kind is not None:
        devices.device_seen(SimpleNamespace(type=kind))
    for _ in range(times):
        devices.optimizer_seen(None, 0)
    return [(event.devices, event.uuids) for event in told]


def test_devices_that_hold_tensors_are_told_once_with_their_identifiers():
    assert seen([0, 5, 0, 9], times=2) == [([1, 3], ["uuid-1", "uuid-3"])]


def test_where_no_device_trains_nothing_is_told():
    assert seen([5], kind=None) == []
    assert seen([5], kind="cpu") == []
    assert seen([0, 0]) == []
