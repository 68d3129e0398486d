from __future__ import annotations

from perfdoctor.trace.measure.memory import memory
from perfdoctor.trace.parse.columns import DeviceProperties
from perfdoctor.trace.results import MemoryUse
from tests.support.traces import Recording


def test_the_mark_is_that_of_the_device_that_used_most() -> None:
    made = Recording(devices=(DeviceProperties(0, "A", 800), DeviceProperties(1, "B", 900)))
    made.memory(0, allocated=500, reserved=600)
    made.memory(1, allocated=700, reserved=710, device=1)
    made.memory(2, allocated=100, reserved=720, device=1)
    assert memory(made.trace()) == MemoryUse(allocated_bytes=700, reserved_bytes=720, total_bytes=900)


def test_memory_of_the_host_does_not_count() -> None:
    made = Recording()
    made.memory(0, on_device=False, allocated=500)
    assert memory(made.trace()) is None


def test_old_traces_record_changes_only() -> None:
    made = Recording()
    made.memory(0, bytes=512)
    assert memory(made.trace()) is None
