"""The sampler of AMD's accelerators, driven through a stand-in for the amdsmi module."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import orjson
import pytest

from perfdoctor.watch.samplers import amd, gpu
from perfdoctor.watch.samplers.amd import AmdSampler, find_devices, read_device

GIB = 1024**3
UUIDS = {"a": "11ff-0000-0000-aa01", "b": "22ff-0000-0000-bb02"}


class FakeSmi:
    """amdsmi for a machine with devices a and b; `given` are answers in place of usual ones."""

    class AmdSmiException(Exception):
        pass

    AmdSmiMemoryType = types.SimpleNamespace(VRAM="vram")
    AmdSmiClkType = types.SimpleNamespace(GFX="gfx", MEM="mem")
    AmdSmiTemperatureType = types.SimpleNamespace(HOTSPOT="hotspot")
    AmdSmiTemperatureMetric = types.SimpleNamespace(CURRENT="current")

    def __init__(self, *failing: str, **given: Any) -> None:
        self.failing = failing
        self.given = given

    def __getattr__(self, name: str) -> Any:
        answers = {
            "init": None,
            "shut_down": None,
            "get_processor_handles": list(UUIDS),
            "get_gpu_asic_info": {"market_name": "AMD Instinct MI300X"},
            "get_gpu_activity": {"gfx_activity": 87, "umc_activity": 12, "mm_activity": "N/A"},
            "get_gpu_memory_usage": 20 * GIB,
            "get_gpu_memory_total": 192 * GIB,
            "get_clock_info": {"clk": 1700, "max_clk": 2100},
            "get_power_info": {"current_socket_power": 410, "average_socket_power": "N/A"},
            "get_temp_metric": 66,
            **self.given,
        }
        what = name.removeprefix("amdsmi_")
        if what in self.failing:
            raise self.AmdSmiException("the driver said no")
        if what == "get_gpu_device_uuid":
            return UUIDS.__getitem__
        if what not in answers:
            raise AttributeError(name)
        return lambda *args: answers[what]


def line(*failing: str, **given: Any) -> dict[str, Any]:
    smi = FakeSmi(*failing, **given)
    return read_device(smi, find_devices(smi, {})[0])


def test_what_amdsmi_tells_has_the_names_of_nvmls_lines() -> None:
    found = line()
    assert (found["name"], found["uuid"], found["index"]) == ("AMD Instinct MI300X", UUIDS["a"], 0)
    assert (found["utilisation"], found["memory_utilisation"]) == (0.87, 0.12)
    assert (found["memory_used_bytes"], found["memory_total_bytes"]) == (20 * GIB, 192 * GIB)
    assert (found["sm_clock_mhz"], found["sm_clock_max_mhz"], found["memory_clock_mhz"]) == (1700, 2100, 1700)
    assert (found["power_w"], found["temperature_c"]) == (410, 66)


def test_what_it_does_not_tell_is_null_with_a_reason() -> None:
    found = line(
        "get_gpu_memory_usage",
        get_gpu_activity={"gfx_activity": "N/A"},
        get_clock_info={},
        get_temp_metric="N/A",
    )
    for name in (name for names, _ in gpu.METRICS for name in names):
        assert (found[name] is None) == (name in found["reasons"]), name
    assert found["reasons"]["memory_used_bytes"] == "amdsmi: the driver said no"
    assert found["reasons"]["utilisation"] == "not supported by this device"
    assert found["reasons"]["throttle"] == "amdsmi does not tell it"
    assert found["power_w"] == 410


def test_an_older_generation_tells_only_its_average_power() -> None:
    power = {"current_socket_power": "N/A", "average_socket_power": 250}
    assert line(get_power_info=power)["power_w"] == 250


@pytest.mark.shows("visible-devices")
@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, ["a", "b"]),
        ({"HIP_VISIBLE_DEVICES": "1,0"}, ["b", "a"]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["b"]),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, ["a"]),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, ["b"]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-00bb02"}, ["b"]),
        ({"HIP_VISIBLE_DEVICES": "0,9,1"}, ["a"]),
        ({"HIP_VISIBLE_DEVICES": "-1"}, []),
        ({"HIP_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_visible_devices_are_mapped_as_hip_maps_them(environment: dict[str, str], found: list[str]) -> None:
    assert [device.handle for device in find_devices(FakeSmi(), environment)] == found


def test_a_device_without_a_name_or_an_identifier_is_sampled_all_the_same() -> None:
    smi = FakeSmi("get_gpu_asic_info", "get_gpu_device_uuid")
    device = find_devices(smi, {})[1]
    assert (device.index, device.name, device.uuid) == (1, "AMD accelerator", "")


def test_each_device_has_its_file(tmp_path: Path) -> None:
    sampler = AmdSampler(tmp_path, FakeSmi(), {})
    sampler.tick()
    sampler.close()
    lines = [orjson.loads(path.read_bytes()) for path in sorted(tmp_path.iterdir())]
    assert [entry["uuid"] for entry in lines] == list(UUIDS.values())


def test_a_driver_that_does_not_start_leaves_no_trace(tmp_path: Path) -> None:
    sampler = AmdSampler(tmp_path, FakeSmi("init", "shut_down"), {})
    sampler.tick()
    sampler.close()
    assert list(tmp_path.iterdir()) == []


def test_without_the_driver_nothing_is_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(amd, "DRIVER", tmp_path / "kfd")
    monkeypatch.setattr(amd.importlib, "import_module", lambda name: pytest.fail(f"imported {name}"))
    assert amd.load() is None


def test_the_module_is_found_where_rocm_puts_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(amd, "DRIVER", tmp_path)
    monkeypatch.setattr(amd, "INSTALLED", str(tmp_path))
    monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
    assert amd.load() is None
    (tmp_path / "amdsmi.py").write_text("here = True\n")
    before = list(sys.path)
    found = amd.load()
    monkeypatch.delitem(sys.modules, "amdsmi")
    assert found is not None
    assert found.here
    assert sys.path == before
