"""All samplers together, as a run starts them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from perfdoctor.watch import samplers
from perfdoctor.watch.samplers.host import HostSampler
from tests.support.processes import BUSY, python, steps_file, wait_for

pytestmark = pytest.mark.process


def test_a_run_is_sampled_until_it_is_stopped(tmp_path: Path) -> None:
    with python(tmp_path, BUSY) as target:
        steps_file(tmp_path, target.pid)
        handle = samplers.start(tmp_path, target.pid, {"stacks": True})
        wait_for(lambda: (tmp_path / "host.jsonl").is_file())
        time.sleep(2)
        handle.stop()
        assert not handle._thread.is_alive()
    lines = [orjson.loads(line) for line in (tmp_path / "host.jsonl").read_bytes().splitlines()]
    assert lines[-1]["procs"][0]["role"] == "main"
    assert (tmp_path / "stacks.rank0.txt").is_file()
    assert not (tmp_path / "probe.log").exists()
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".part") == []


def test_without_stacks_none_are_taken(tmp_path: Path) -> None:
    with python(tmp_path, BUSY) as target:
        steps_file(tmp_path, target.pid)
        handle = samplers.start(tmp_path, target.pid, {"stacks": False})
        wait_for(lambda: (tmp_path / "host.jsonl").is_file())
        handle.stop()
    assert not (tmp_path / "stacks.rank0.txt").exists()


@pytest.mark.shows("own-failure")
def test_a_sampler_that_fails_is_turned_off_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: HostSampler, now_s: float) -> bool:
        raise ValueError("no such figure")

    monkeypatch.setattr(HostSampler, "tick", fail)
    monkeypatch.setattr(samplers, "TICK_S", 0.05)
    with python(tmp_path, BUSY) as target:
        handle = samplers.start(tmp_path, target.pid, {"stacks": False})
        wait_for(lambda: (tmp_path / "probe.log").is_file())
        time.sleep(0.3)
        handle.stop()
    assert (tmp_path / "probe.log").read_text() == "host sampler turned off: ValueError: no such figure\n"


def test_a_run_directory_that_goes_away_reaches_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(samplers, "TICK_S", 0.05)
    with python(tmp_path, BUSY) as target:
        handle = samplers.start(tmp_path / "gone", target.pid, {})
        time.sleep(0.5)
        handle.stop()
        assert not handle._thread.is_alive()
    assert capfd.readouterr().err == ""


def test_a_command_that_is_gone_already_is_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samplers, "TICK_S", 0.05)
    with python(tmp_path, "") as target:
        target.wait()
        handle = samplers.start(tmp_path, target.pid, {})
        wait_for(lambda: (tmp_path / "host.jsonl").is_file())
        handle.stop()
    line = orjson.loads((tmp_path / "host.jsonl").read_bytes().splitlines()[0])
    assert line["procs"] == []
    assert not (tmp_path / "probe.log").exists()


class SilentNvml:
    """A driver that never answers: its first call, or any later one."""

    class NVMLError(Exception):
        pass

    def __init__(self, silent: str) -> None:
        self.silent = silent
        self.asked = threading.Event()
        self.released = threading.Event()

    def __getattr__(self, name: str) -> Callable[..., object]:
        def answer(*given: object) -> object:
            if name == self.silent:
                self.asked.set()
                self.released.wait(60)
            if name == "nvmlDeviceGetCount":
                return 1
            return "GPU-a" if name != "nvmlInit" else None

        return answer


@pytest.mark.shows("no-nvml")
@pytest.mark.parametrize("silent", ["nvmlInit", "nvmlDeviceGetUtilizationRates"])
def test_a_driver_that_never_answers_holds_up_neither_the_other_samplers_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    nvml = SilentNvml(silent)
    monkeypatch.setattr(samplers.devices.gpu, "load", lambda: nvml)
    monkeypatch.setattr(samplers, "GPU_GRACE_S", 0.1)
    with python(tmp_path, BUSY) as target:
        handle = samplers.start(tmp_path, target.pid, {"stacks": False})
        wait_for(nvml.asked.is_set)
        wait_for(lambda: (tmp_path / "host.jsonl").is_file())
        handle.stop()
        assert not handle._thread.is_alive()
        assert not nvml.released.is_set()
    nvml.released.set()
    assert not (tmp_path / "probe.log").exists()
