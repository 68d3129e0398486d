from __future__ import annotations

import subprocess
import sys

import pytest

from perfdoctor.trials import lockstep
from perfdoctor.trials.sandbox import memory
from tests.support.trial_runs import WORKERS, execution

pytestmark = pytest.mark.process

HOLDS = "import sys; held = bytearray(100 << 20); held[::4096] = b'x' * len(held[::4096]); print(flush=True); sys.stdin.read()"


def test_what_a_process_and_its_children_hold_is_added_up() -> None:
    outer = f"import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {HOLDS!r}]); {HOLDS}"
    with subprocess.Popen(
        [sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        for _ in range(2):
            process.stdout.readline()
        taken = memory.taken_bytes(process.pid)
        process.communicate()
    assert taken is not None
    assert 200 << 20 <= taken < 300 << 20


def test_a_process_that_is_gone_takes_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert memory.taken_bytes(process.pid) is None


def test_no_more_trainings_are_alive_at_once_than_the_control_group_has_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = execution(host_bytes=1_000_000)
    monkeypatch.setattr(memory.cgroup, "memory_left_bytes", lambda: None)
    assert lockstep.obstacle(measured, [WORKERS], 1) is None
    monkeypatch.setattr(memory.cgroup, "memory_left_bytes", lambda: 1_500_000)
    why = lockstep.obstacle(measured, [WORKERS], 1)
    assert why is not None
    assert "GB of memory are free" in why


class Devices:
    """A sampler of devices of which each has so many bytes free."""

    def __init__(self, *free: int | None) -> None:
        self.free = free

    def lines(self) -> list[dict[str, int | None]]:
        told = (None if each is None else 10**10 - each for each in self.free)
        return [{"memory_total_bytes": 10**10, "memory_used_bytes": used} for used in told]

    def close(self) -> None:
        """Nothing to let go of."""


@pytest.mark.parametrize(
    ("sampler", "why"),
    [
        (Devices(8 * 10**9), None),
        (Devices(8 * 10**9, 4 * 10**9), "4.0 GB of the device's memory are free"),
        (Devices(None), "free space in the device's memory is unknown"),
        (None, "free space in the device's memory is unknown"),
    ],
)
def test_no_more_trainings_are_alive_at_once_than_the_device_has_room_for(
    monkeypatch: pytest.MonkeyPatch, sampler: Devices | None, why: str | None
) -> None:
    monkeypatch.setattr(memory.devices, "opened", lambda run, environment: sampler)
    found = lockstep.obstacle(execution(device_bytes=10**9, ranks=1), [WORKERS], 1)
    assert found is None if why is None else why in str(found)


def test_ranks_on_devices_do_not_take_turns() -> None:
    found = lockstep.obstacle(execution(device_bytes=10**9, ranks=2), [WORKERS], 1)
    assert found is not None
    assert "ranks on devices" in found
