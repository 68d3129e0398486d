from __future__ import annotations

import pytest

from perfdoctor.trace.measure.device_peaks import TABLE, peak
from perfdoctor.trace.parse.columns import DeviceProperties

GB = 10**9


@pytest.mark.parametrize(
    ("name", "memory", "device"),
    [
        ("Tesla V100-SXM2-32GB", 34 * GB, "V100"),
        ("Tesla V100-PCIE-16GB", 17 * GB, "V100 PCIe"),
        ("Tesla V100S-PCIE-32GB", 34 * GB, "V100S PCIe"),
        ("NVIDIA A100-PG509-200", 42 * GB, "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", 85 * GB, "A100 80GB"),
        ("NVIDIA A100-SXM4-40GB", 42 * GB, "A100 40GB"),
        ("NVIDIA A100 80GB PCIe", 85 * GB, "A100 80GB PCIe"),
        ("NVIDIA A10G", 24 * GB, "A10G"),
        ("NVIDIA A10", 24 * GB, "A10"),
        ("NVIDIA L4", 24 * GB, "L4"),
        ("NVIDIA L40S", 48 * GB, "L40S"),
        ("NVIDIA L40", 48 * GB, "L40"),
        ("Tesla T4", 16 * GB, "T4"),
        ("NVIDIA GeForce RTX 4090", 24 * GB, "GeForce RTX 4090"),
        ("NVIDIA H100 80GB HBM3", 85 * GB, "H100 SXM"),
        ("NVIDIA H100 PCIe", 85 * GB, "H100 PCIe"),
        ("NVIDIA H100 NVL", 100 * GB, "H100 NVL"),
        ("NVIDIA H200", 150 * GB, "H200"),
        ("NVIDIA GH200 480GB", 101 * GB, "GH200 96GB"),
        ("NVIDIA B200", 190 * GB, "B200"),
        ("NVIDIA GB200", 190 * GB, "GB200"),
        ("NVIDIA B300 SXM6 AC", 287 * GB, "B300"),
        ("AMD Instinct MI300X VF", 205 * GB, "MI300X"),
        ("AMD Instinct MI250X", 68 * GB, "MI250X, one of two dies"),
        ("AMD Instinct MI355X", 300 * GB, "MI355X"),
    ],
)
def test_devices_are_known_by_name_and_memory(name: str, memory: int, device: str) -> None:
    found = peak(DeviceProperties(0, name, memory))
    assert found is not None
    assert found.device == device


@pytest.mark.parametrize(
    "name",
    ["", "AMD Radeon Graphics", "NVIDIA H100", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 4090 Laptop GPU",
     "NVIDIA A1000", "Quadro T400", "Tesla P100-PCIE-16GB", "NVIDIA GeForce RTX 5090 Laptop GPU"],
)  # fmt: skip
def test_a_device_that_is_not_certain_has_no_limits(name: str) -> None:
    assert peak(DeviceProperties(0, name)) is None


@pytest.mark.parametrize(
    ("name", "memory"),
    [
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 42 * GB),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 10 * GB),
        ("NVIDIA A100-SXM-64GB", 68 * GB),  # a variant with other clocks
        ("GRID T4-8Q", 8 * GB),
        ("NVIDIA A10-12Q", 12 * GB),
        ("AMD Instinct MI300X", 26 * GB),  # one of eight partitions
    ],
)
def test_a_part_of_a_device_has_not_the_limits_of_the_whole(name: str, memory: int) -> None:
    assert peak(DeviceProperties(0, name, memory)) is None


def test_half_a_card_has_half_of_its_limits() -> None:
    found = peak(DeviceProperties(0, "AMD Instinct MI250X"))
    assert found is not None
    assert (found.flops_per_s["bfloat16"], found.bytes_per_s) == (191.5e12, 1638.5e9)


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry.device)
def test_every_entry_names_its_source_and_fewer_bits_are_never_slower(entry: object) -> None:
    tflops = entry.tflops  # type: ignore[attr-defined]
    assert entry.source  # type: ignore[attr-defined]
    order = [
        tflops[dtype] for dtype in ("float64", "float32", "tf32", "bfloat16", "fp8", "fp4") if dtype in tflops
    ]
    assert order == sorted(order)
    assert tflops.get("bfloat16", tflops["float16"]) == tflops["float16"]
