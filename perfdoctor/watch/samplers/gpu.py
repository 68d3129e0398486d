"""Samples the accelerators of a run through NVML; each metric may be missing on its own, with the reason."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from perfdoctor.model.dataclass import dataclass
from perfdoctor.runs.directory import append_line, gpu_file

LIBRARY = "libnvidia-ml.so.1"
ALL_LINKS = 0xFFFFFFFF  # the scope of a NVLink field that asks for the sum over all links
KIB = 1024

# Bits of NVML's clock event reasons. An idle device and user settings are not throttling.
THROTTLE_BITS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "temperature (software)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}

_REASONS = {
    "NVMLError_NotSupported": "not supported by this device",
    "NVMLError_NoPermission": "not permitted",
    "NVMLError_FunctionNotFound": "the driver is too old",
    "NVMLError_GpuIsLost": "the device is lost",
    "NVMLError_LibRmVersionMismatch": "driver and library versions differ",
    "NVMLError_DriverNotLoaded": "the driver is not loaded",
    "NVMLError_ArgumentVersionMismatch": "the driver is too old",
    "NVMLError_InvalidArgument": "not supported by this device",
    "NVMLError_Timeout": "the driver did not answer in time",
}

Metrics = tuple[
    tuple[tuple[str, ...], Callable[[Any, Any], tuple[Any, ...]]], ...
]  # names, and who reads them


@dataclass(frozen=True)
class SampledDevice:
    """One accelerator of the run: its place among the run's devices and its library's handle."""

    index: int
    handle: Any
    uuid: str
    name: str
    mig: bool


def load() -> Any | None:
    """The pynvml module where this machine has NVML; otherwise None, at the cost of one failed dlopen."""
    try:
        ctypes.CDLL(LIBRARY)
        return importlib.import_module("pynvml")
    except (OSError, ImportError):
        return None


class GpuSampler:
    """Appends a line per device to gpu{N}.jsonl; N counts the devices that the run can see."""

    def __init__(self, run: Path, nvml: Any, environment: Mapping[str, str]) -> None:
        self._run = run
        self._nvml = nvml
        self.devices: list[SampledDevice] = []
        try:
            nvml.nvmlInit()
            self.devices = find_devices(nvml, environment)
        except nvml.NVMLError:
            self.devices = []  # a driver that does not answer: nothing to sample

    def lines(self) -> list[dict[str, Any]]:
        """What each device tells now."""
        return [read_device(self._nvml, device) for device in self.devices]

    def tick(self) -> None:
        """Write one line for each device."""
        for line in self.lines():
            append_line(self._run / gpu_file(line["index"]), line)

    def close(self) -> None:
        """Let go of NVML."""
        with contextlib.suppress(self._nvml.NVMLError):  # it may never have been initialised
            self._nvml.nvmlShutdown()


def find_devices(nvml: Any, environment: Mapping[str, str]) -> list[SampledDevice]:
    """The devices that CUDA_VISIBLE_DEVICES leaves to the run, in its order; all where it is not set.

    As in CUDA, the list ends at the first entry that names no device. Names are matched by UUID, of which a
    beginning is enough; MIG instances by their own UUID. NVML counts devices by their bus, CUDA by speed
    unless told otherwise: numbers among unlike devices cannot be mapped, and then all are sampled.
    """
    handles = [_handle(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    present = [handle for handle in handles if handle is not None]
    everything = [_device(nvml, index, handle, mig=False) for index, handle in enumerate(present)]
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return everything
    words = [part.strip() for part in visible.split(",")]
    by_bus = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if words[0].isdigit() and not by_bus and len({device.name for device in everything}) > 1:
        return everything
    devices: list[SampledDevice] = []
    for word in words:
        handle = _named(nvml, word, handles)
        if handle is None:
            break
        devices.append(_device(nvml, len(devices), handle, mig=word.startswith("MIG-")))
    return devices


def _handle(nvml: Any, index: int) -> Any | None:
    try:
        return nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError:
        return None  # lost, or not ours to see; the others still are


def _named(nvml: Any, word: str, handles: list[Any]) -> Any | None:
    if word.isdigit():
        return handles[int(word)] if int(word) < len(handles) else None
    if word.startswith("MIG-"):
        try:
            return nvml.nvmlDeviceGetHandleByUUID(word)
        except nvml.NVMLError:
            return None
    if not word.startswith("GPU-"):
        return None
    alike = [handle for handle in handles if handle is not None and _uuid(nvml, handle).startswith(word)]
    return alike[0] if len(alike) == 1 else None


def _device(nvml: Any, index: int, handle: Any, mig: bool) -> SampledDevice:
    try:
        name = _text(nvml.nvmlDeviceGetName(handle))
    except nvml.NVMLError:
        name = "accelerator"
    return SampledDevice(index, handle, _uuid(nvml, handle), name, mig)


def _uuid(nvml: Any, handle: Any) -> str:
    try:
        return _text(nvml.nvmlDeviceGetUUID(handle))
    except nvml.NVMLError:
        return ""


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def read_device(nvml: Any, device: SampledDevice) -> dict[str, Any]:
    """One line of gpu{N}.jsonl: every metric a number, or None with an entry in `reasons`."""
    line: dict[str, Any] = {"t_ns": time.perf_counter_ns(), "index": device.index, "uuid": device.uuid}
    line["name"] = device.name
    read = read_metrics(METRICS, nvml, device.handle, nvml.NVMLError, lambda error: _reason(error, device))
    return {**line, **read}


def read_metrics(
    metrics: Metrics,
    library: Any,
    handle: Any,
    refusal: type[Exception],
    why: Callable[[Exception], str],
) -> dict[str, Any]:
    """Every metric of a device, and `reasons` for those that are None; the library raises `refusal`."""
    found: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for names, read in metrics:
        try:
            values = read(library, handle)
        except refusal as error:
            values, because = (None,) * len(names), why(error)
        except (AttributeError, ctypes.ArgumentError, KeyError, TypeError, ValueError) as error:
            # A binding older or newer than the driver: a metric that cannot be read, not a failure.
            values, because = (None,) * len(names), f"cannot be read ({type(error).__name__})"
        else:
            because = "not supported by this device"
        for name, value in zip(names, values, strict=True):
            found[name] = value
            if value is None:
                reasons[name] = because
    return {**found, "reasons": reasons}


def _reason(error: Exception, device: SampledDevice) -> str:
    kind = type(error).__name__
    if device.mig and kind in ("NVMLError_NotSupported", "NVMLError_InvalidArgument"):
        return "not available for a MIG instance"
    return _REASONS.get(kind, f"NVML: {error}")


def _utilisation(nvml: Any, handle: Any) -> tuple[float | None, ...]:
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu / 100, rates.memory / 100


def _memory(nvml: Any, handle: Any) -> tuple[int | None, ...]:
    """What programs use and what they can have; the driver's own part is in neither, where it is told."""
    try:
        info = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except nvml.NVMLError_FunctionNotFound:  # a driver before 510
        info = nvml.nvmlDeviceGetMemoryInfo(handle)
        return int(info.used), int(info.total)
    return int(info.used), int(info.total - info.reserved)


def _clock(kind: str, function: str) -> Callable[[Any, Any], tuple[int | None, ...]]:
    def read(nvml: Any, handle: Any) -> tuple[int | None, ...]:
        return (int(getattr(nvml, function)(handle, getattr(nvml, kind))),)

    return read


def _throttle(nvml: Any, handle: Any) -> tuple[list[str] | None, ...]:
    ask = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    ask = ask or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
    bits = int(ask(handle))
    return ([name for bit, name in THROTTLE_BITS.items() if bits & bit],)


def _pcie(nvml: Any, handle: Any) -> tuple[int | None, ...]:
    """Bytes so far. (nvmlDeviceGetPcieThroughput would hold this thread up for 20 ms each way.)"""
    wanted = (nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES)
    return tuple(_fields(nvml, handle, *wanted))


def _nvlink(nvml: Any, handle: Any) -> tuple[int | None, ...]:
    wanted = (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX)
    sent, received = _fields(nvml, handle, *((field, ALL_LINKS) for field in wanted))
    return (None if sent is None else sent * KIB), (None if received is None else received * KIB)


def _fields(nvml: Any, handle: Any, *wanted: Any) -> list[int | None]:
    """Counters by field id; NVML marks each field's failure on its own."""
    values = nvml.nvmlDeviceGetFieldValues(handle, list(wanted))
    return [int(value.value.ullVal) if value.nvmlReturn == nvml.NVML_SUCCESS else None for value in values]


def _power(nvml: Any, handle: Any) -> tuple[float | None, ...]:
    return (nvml.nvmlDeviceGetPowerUsage(handle) / 1000,)


def _power_limit(nvml: Any, handle: Any) -> tuple[float | None, ...]:
    return (nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,)


def _temperature(nvml: Any, handle: Any) -> tuple[int | None, ...]:
    return (int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),)


METRICS: Metrics = (
    (("utilisation", "memory_utilisation"), _utilisation),
    (("memory_used_bytes", "memory_total_bytes"), _memory),
    (("sm_clock_mhz",), _clock("NVML_CLOCK_SM", "nvmlDeviceGetClockInfo")),
    (("memory_clock_mhz",), _clock("NVML_CLOCK_MEM", "nvmlDeviceGetClockInfo")),
    (("sm_clock_max_mhz",), _clock("NVML_CLOCK_SM", "nvmlDeviceGetMaxClockInfo")),
    (("throttle",), _throttle),
    (("pcie_sent_bytes", "pcie_received_bytes"), _pcie),
    (("nvlink_sent_bytes", "nvlink_received_bytes"), _nvlink),
    (("power_w",), _power),
    (("power_limit_w",), _power_limit),
    (("temperature_c",), _temperature),
)
