"""The accelerator sampler, driven through a stand-in for the pynvml module."""

# ruff: noqa: N802, N815 - the stand-in has pynvml's names

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfdoctor.watch.samplers import gpu
from perfdoctor.watch.samplers.gpu import GpuSampler, find_devices, read_device

GIB = 1024**3
ERRORS = (
    "NotSupported",
    "NoPermission",
    "FunctionNotFound",
    "GpuIsLost",
    "Unknown",
    "InvalidArgument",
    "Timeout",
    "ArgumentVersionMismatch",
    "LibRmVersionMismatch",
    "DriverNotLoaded",
)
READERS = (
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetTemperature",
)
METRIC_NAMES = tuple(name for names, _ in gpu.METRICS for name in names)


class FakeNvml:
    """pynvml for a machine with `uuids`; `failing` maps a function's name to the error it raises."""

    NVML_SUCCESS = 0
    nvmlMemory_v2 = 0x2000028
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    NVML_TEMPERATURE_GPU = 0
    NVML_FI_DEV_PCIE_COUNT_TX_BYTES = 197
    NVML_FI_DEV_PCIE_COUNT_RX_BYTES = 198
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX = 138
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 139

    class NVMLError(Exception):
        pass

    def __init__(
        self,
        *uuids: str,
        failing: dict[str, str] | None = None,
        links: bool = True,
        odd: str = "",
        before_510: bool = False,
    ) -> None:
        self.odd = odd
        self.before_510 = before_510
        self.uuids = uuids
        self.failing = failing or {}
        self.links = links
        self.kinds = {kind: type(f"NVMLError_{kind}", (self.NVMLError,), {}) for kind in ERRORS}
        self.NVMLError_FunctionNotFound = self.kinds["FunctionNotFound"]

    def __getattribute__(self, name: str) -> Any:
        kind = object.__getattribute__(self, "__dict__").get("failing", {}).get(name)
        if kind is None:
            return object.__getattribute__(self, name)
        if kind == "absent":
            raise AttributeError(name)

        def fail(*_: Any, **__: Any) -> None:
            raise self.kinds[kind]("it failed")

        return fail

    def nvmlInit(self) -> None: ...

    def nvmlShutdown(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return len([uuid for uuid in self.uuids if uuid.startswith("GPU-")])

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return self.uuids[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in self.uuids:
            raise self.kinds["InvalidArgument"]
        return uuid

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return handle

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return b"Slow Display Card" if handle == self.odd else b"Fast Accelerator"

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        return types.SimpleNamespace(gpu=42, memory=7)

    def nvmlDeviceGetMemoryInfo(self, handle: str, version: int = 1) -> Any:
        if version == 1:
            return types.SimpleNamespace(used=4 * GIB, total=81 * GIB)
        if self.before_510:
            raise self.kinds["FunctionNotFound"]
        return types.SimpleNamespace(used=3 * GIB, total=81 * GIB, reserved=GIB)

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:
        return {1: 1410, 2: 1593}[kind]

    def nvmlDeviceGetMaxClockInfo(self, handle: str, kind: int) -> int:
        return 1980

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        return 0x01 | 0x04 | 0x40

    nvmlDeviceGetCurrentClocksThrottleReasons = nvmlDeviceGetCurrentClocksEventReasons

    def nvmlDeviceGetFieldValues(self, handle: str, wanted: list[Any]) -> list[Any]:
        status = 0 if self.links or not isinstance(wanted[0], tuple) else 3
        return [
            types.SimpleNamespace(nvmlReturn=status, value=types.SimpleNamespace(ullVal=5)) for _ in wanted
        ]

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return 250_500

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: str) -> int:
        return 700_000

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        return 61


def uuids(nvml: Any, visible: str | None) -> list[str]:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    return [device.uuid for device in find_devices(nvml, environment)]


def line(nvml: Any, visible: str | None = None) -> dict[str, Any]:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    return read_device(nvml, find_devices(nvml, environment)[0])


def test_every_metric_is_read_where_the_device_tells_it() -> None:
    found = line(FakeNvml("GPU-a"))
    assert found["reasons"] == {}
    assert found["utilisation"] == 0.42
    assert found["memory_used_bytes"] == 3 * GIB
    assert found["sm_clock_mhz"] == 1410
    assert found["memory_clock_mhz"] == 1593
    assert found["sm_clock_max_mhz"] == 1980
    assert found["throttle"] == ["power cap", "temperature (hardware)"]  # an idle device is not throttled
    assert found["pcie_sent_bytes"] == 5
    assert found["nvlink_received_bytes"] == 5 * 1024
    assert found["power_w"] == 250.5
    assert found["temperature_c"] == 61
    assert found["name"] == "Fast Accelerator"


def test_memory_is_what_programs_use_without_the_drivers_own_part() -> None:
    found = line(FakeNvml("GPU-a"))
    assert (found["memory_used_bytes"], found["memory_total_bytes"]) == (3 * GIB, 80 * GIB)
    old = line(FakeNvml("GPU-a", before_510=True))
    assert (old["memory_used_bytes"], old["memory_total_bytes"]) == (4 * GIB, 81 * GIB)


@pytest.mark.shows("no-nvml")
@given(st.dictionaries(st.sampled_from(READERS), st.sampled_from([*ERRORS, "absent"])))
def test_what_is_not_known_is_never_zero_and_always_has_a_reason(failing: dict[str, str]) -> None:
    found = line(FakeNvml("GPU-a", failing=failing))
    assert set(METRIC_NAMES) <= found.keys()
    for name in METRIC_NAMES:
        assert (found[name] is None) == (name in found["reasons"])
        assert found[name] != 0
    missing = "nvmlDeviceGetUtilizationRates" in failing
    assert (found["utilisation"] is None) == missing
    assert (found["power_w"] is None) == ("nvmlDeviceGetPowerUsage" in failing)


@pytest.mark.shows("no-nvml")
def test_a_refusal_is_told_in_words() -> None:
    failing = {
        "nvmlDeviceGetUtilizationRates": "NotSupported",
        "nvmlDeviceGetPowerUsage": "NoPermission",
        "nvmlDeviceGetTemperature": "Unknown",
    }
    reasons = line(FakeNvml("GPU-a", failing=failing))["reasons"]
    assert reasons["utilisation"] == "not supported by this device"
    assert reasons["power_w"] == "not permitted"
    assert reasons["temperature_c"] == "NVML: it failed"


def test_an_older_binding_without_the_new_names_still_tells_throttling() -> None:
    found = line(FakeNvml("GPU-a", failing={"nvmlDeviceGetCurrentClocksEventReasons": "absent"}))
    assert found["throttle"] == ["power cap", "temperature (hardware)"]


def test_a_device_without_links_has_no_link_traffic() -> None:
    found = line(FakeNvml("GPU-a", links=False))
    assert found["nvlink_sent_bytes"] is None
    assert found["reasons"]["nvlink_sent_bytes"] == "not supported by this device"
    assert found["pcie_sent_bytes"] == 5


@pytest.mark.shows("no-nvml")
def test_a_mig_instance_has_no_utilisation_and_says_why() -> None:
    nvml = FakeNvml("GPU-a", "MIG-1", failing={"nvmlDeviceGetUtilizationRates": "NotSupported"})
    found = line(nvml, "MIG-1")
    assert found["uuid"] == "MIG-1"
    assert found["utilisation"] is None
    assert found["reasons"]["utilisation"] == "not available for a MIG instance"


@pytest.mark.shows("visible-devices")
@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ["GPU-aa", "GPU-ab", "GPU-b"]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("2,0", ["GPU-b", "GPU-aa"]),
        ("1", ["GPU-ab"]),
        (" 1 , 2 ", ["GPU-ab", "GPU-b"]),
        ("0,9,1", ["GPU-aa"]),  # the list ends at the first entry that names no device
        ("GPU-b,GPU-ab", ["GPU-b", "GPU-ab"]),
        ("GPU-b", ["GPU-b"]),
        ("GPU-a", []),  # names two devices
        ("MIG-1", ["MIG-1"]),
        ("MIG-unknown", []),
    ],
)
def test_visible_devices_are_mapped_as_cuda_maps_them(visible: str | None, expected: list[str]) -> None:
    assert uuids(FakeNvml("GPU-aa", "GPU-ab", "GPU-b", "MIG-1"), visible) == expected


@pytest.mark.shows("visible-devices")
def test_numbers_among_unlike_devices_are_trusted_only_in_bus_order() -> None:
    nvml = FakeNvml("GPU-a", "GPU-b", odd="GPU-a")
    by_bus = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert [device.uuid for device in find_devices(nvml, by_bus)] == ["GPU-a"]
    assert uuids(nvml, "0") == ["GPU-a", "GPU-b"]
    assert uuids(nvml, "GPU-b") == ["GPU-b"]


@pytest.mark.shows("no-nvml")
def test_a_lost_device_does_not_take_the_others_with_it() -> None:
    class OneLost(FakeNvml):
        def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
            if index == 0:
                raise self.kinds["GpuIsLost"]
            return super().nvmlDeviceGetHandleByIndex(index)

    assert uuids(OneLost("GPU-a", "GPU-b"), None) == ["GPU-b"]
    assert uuids(OneLost("GPU-a", "GPU-b"), "1") == ["GPU-b"]
    assert uuids(OneLost("GPU-a", "GPU-b"), "0") == []
    assert uuids(OneLost("GPU-a", "GPU-b"), "GPU-b") == ["GPU-b"]


@pytest.mark.shows("visible-devices")
def test_each_device_has_its_file_numbered_as_the_run_sees_it(tmp_path: Path) -> None:
    sampler = GpuSampler(tmp_path, FakeNvml("GPU-a", "GPU-b"), {"CUDA_VISIBLE_DEVICES": "1"})
    sampler.tick()
    sampler.tick()
    sampler.close()
    assert [path.name for path in tmp_path.iterdir()] == ["gpu0.jsonl"]
    lines = [orjson.loads(text) for text in (tmp_path / "gpu0.jsonl").read_bytes().splitlines()]
    assert [entry["uuid"] for entry in lines] == ["GPU-b", "GPU-b"]


@pytest.mark.shows("no-nvml")
@pytest.mark.parametrize("kind", ERRORS)
def test_a_driver_that_does_not_start_leaves_no_trace(tmp_path: Path, kind: str) -> None:
    failing = {"nvmlInit": kind, "nvmlShutdown": kind}
    sampler = GpuSampler(tmp_path, FakeNvml("GPU-a", failing=failing), {})
    sampler.tick()
    sampler.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.shows("no-nvml")
def test_without_the_library_there_is_nothing_to_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "LIBRARY", "libno-such-thing.so.1")
    monkeypatch.setattr(gpu.importlib, "import_module", lambda name: pytest.fail(f"imported {name}"))
    assert gpu.load() is None


def test_the_names_used_are_those_of_the_real_module() -> None:
    pynvml = pytest.importorskip("pynvml")
    named = [name for name in vars(FakeNvml) if name.startswith(("nvml", "NVML_"))]
    assert [name for name in named if not hasattr(pynvml, name)] == []
    for kind in gpu._REASONS:
        assert hasattr(pynvml, kind), kind
