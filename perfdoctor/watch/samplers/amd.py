"""Samples AMD's accelerators through amdsmi, in the same lines as NVML's."""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from perfdoctor.runs.directory import append_line, gpu_file
from perfdoctor.watch.samplers import gpu
from perfdoctor.watch.samplers.gpu import SampledDevice

DRIVER = Path("/dev/kfd")  # without it no AMD device computes
INSTALLED = "/opt/rocm/share/amd_smi"  # where ROCm puts the module, outside of any environment
# ROCR's variable takes devices away first; HIP numbers what is left, and reads CUDA's name for it as well.
VISIBLE = (("ROCR_VISIBLE_DEVICES",), ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"))
NOT_TOLD = "amdsmi does not tell it"


def load() -> Any | None:
    """The amdsmi module where this machine has a device for it; otherwise None, at the cost of one look."""
    if not DRIVER.exists():
        return None
    for folder in ((), (INSTALLED,)):
        sys.path.extend(folder)
        try:
            return importlib.import_module("amdsmi")
        except (ImportError, OSError, KeyError):  # its library is missing, or of another version
            continue
        finally:
            for each in folder:
                sys.path.remove(each)
    return None


class AmdSampler:
    """Appends a line per device to gpu{N}.jsonl; N counts the devices that the run can see."""

    def __init__(self, run: Path, smi: Any, environment: Mapping[str, str]) -> None:
        self._run = run
        self._smi = smi
        self.devices: list[SampledDevice] = []
        try:
            smi.amdsmi_init()
            self.devices = find_devices(smi, environment)
        except smi.AmdSmiException:
            self.devices = []  # a driver that does not answer: nothing to sample

    def lines(self) -> list[dict[str, Any]]:
        """What each device tells now."""
        return [read_device(self._smi, device) for device in self.devices]

    def tick(self) -> None:
        """Write one line for each device."""
        for line in self.lines():
            append_line(self._run / gpu_file(line["index"]), line)

    def close(self) -> None:
        """Let go of the library."""
        with contextlib.suppress(self._smi.AmdSmiException):  # it may never have been initialised
            self._smi.amdsmi_shut_down()


def find_devices(smi: Any, environment: Mapping[str, str]) -> list[SampledDevice]:
    """The devices that the environment leaves to the run, in its order; all where it says nothing.

    A list ends at the first entry that names no device.
    """
    found = [(handle, _uuid(smi, handle)) for handle in smi.amdsmi_get_processor_handles()]
    for names in VISIBLE:
        said = next((environment[name] for name in names if name in environment), None)
        if said is None:
            continue
        chosen: list[tuple[Any, str]] = []
        for word in (part.strip() for part in said.split(",")):
            named = found[int(word) : int(word) + 1] if word.isdigit() else _alike(found, word)
            if len(named) != 1:
                break
            chosen += named
        found = chosen
    return [
        SampledDevice(index, handle, uuid, _name(smi, handle), mig=False)
        for index, (handle, uuid) in enumerate(found)
    ]


def _alike(found: list[tuple[Any, str]], word: str) -> list[tuple[Any, str]]:
    """Those whose identifier ends as "GPU-..." says: HIP shortens it."""
    short = word.removeprefix("GPU-").lower()
    return [entry for entry in found if short and entry[1].replace("-", "").lower().endswith(short)]


def _uuid(smi: Any, handle: Any) -> str:
    try:
        return str(smi.amdsmi_get_gpu_device_uuid(handle))
    except smi.AmdSmiException:
        return ""


def _name(smi: Any, handle: Any) -> str:
    try:
        name = smi.amdsmi_get_gpu_asic_info(handle).get("market_name")
    except smi.AmdSmiException:
        name = None
    return name if isinstance(name, str) and name not in ("", "N/A") else "AMD accelerator"


def read_device(smi: Any, device: SampledDevice) -> dict[str, Any]:
    """One line of gpu{N}.jsonl: every metric a number, or None with an entry in `reasons`."""
    line: dict[str, Any] = {"t_ns": time.perf_counter_ns(), "index": device.index, "uuid": device.uuid}
    line["name"] = device.name
    read = gpu.read_metrics(
        METRICS, smi, device.handle, smi.AmdSmiException, lambda error: f"amdsmi: {error}"
    )
    told = {name for names, _ in METRICS for name in names}
    others = [name for names, _ in gpu.METRICS for name in names if name not in told]
    reasons = {**read.pop("reasons"), **dict.fromkeys(others, NOT_TOLD)}
    return {**line, **read, **dict.fromkeys(others), "reasons": reasons}


def _number(value: Any) -> float | None:
    """A number, or None for the "N/A" that stands for what this device does not tell."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _utilisation(smi: Any, handle: Any) -> tuple[float | None, ...]:
    rates = smi.amdsmi_get_gpu_activity(handle)
    known = (_number(rates.get(name)) for name in ("gfx_activity", "umc_activity"))
    return tuple(None if rate is None else rate / 100 for rate in known)


def _memory(smi: Any, handle: Any) -> tuple[int | None, ...]:
    vram = smi.AmdSmiMemoryType.VRAM
    return (
        int(smi.amdsmi_get_gpu_memory_usage(handle, vram)),
        int(smi.amdsmi_get_gpu_memory_total(handle, vram)),
    )


def _clocks(kind: str) -> Callable[[Any, Any], tuple[float | None, ...]]:
    def read(smi: Any, handle: Any) -> tuple[float | None, ...]:
        clocks = smi.amdsmi_get_clock_info(handle, getattr(smi.AmdSmiClkType, kind))
        known = (_number(clocks.get(name)) for name in ("clk", "max_clk"))
        return tuple(known) if kind == "GFX" else (next(known),)

    return read


def _power(smi: Any, handle: Any) -> tuple[float | None, ...]:
    """Watts; which of two names a device fills depends on its generation."""
    power = smi.amdsmi_get_power_info(handle)
    told = (_number(power.get(name)) for name in ("current_socket_power", "average_socket_power"))
    return (next((watts for watts in told if watts), None),)


def _temperature(smi: Any, handle: Any) -> tuple[float | None, ...]:
    sensor, metric = smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT
    return (_number(smi.amdsmi_get_temp_metric(handle, sensor, metric)),)


METRICS: gpu.Metrics = (
    (("utilisation", "memory_utilisation"), _utilisation),
    (("memory_used_bytes", "memory_total_bytes"), _memory),
    (("sm_clock_mhz", "sm_clock_max_mhz"), _clocks("GFX")),
    (("memory_clock_mhz",), _clocks("MEM")),
    (("power_w",), _power),
    (("temperature_c",), _temperature),
)
