"""Lists what devices can do at most, as their vendors say: dense, without sparsity, on matrix cores if any.

Data sheets round: 989 where the white paper has 989.4.
"""

from __future__ import annotations

import re

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trace.parse.columns import DeviceProperties
from perfdoctor.trace.results import DevicePeak

GIB = 1 << 30
# Names of a part of a device, or of one with other clocks: a MIG slice, a vGPU ("GRID T4-8Q"), a laptop's.
PARTIAL = re.compile(r"\bMIG\b|\bGRID\b|-\d+[ABCQ]\b|\bLaptop\b|\bMax-Q\b", re.IGNORECASE)
TERA, GIGA = 1e12, 1e9


@dataclass(frozen=True)
class _Entry:
    pattern: str  # of the device's name, ignoring case
    device: str
    tflops: dict[str, float]
    gb_per_s: float
    source: str
    least_memory: int = 0  # that the device must have, where one name stands for several sizes or partitions
    per_device: float = 1.0  # of a card's figures: an MI250 shows as two devices


# Half precision with sums in float32, as training uses; float64 on tensor cores, as cuBLAS uses them.
HOPPER = {"float64": 66.9, "float32": 66.9, "tf32": 494.7, "float16": 989.4, "bfloat16": 989.4, "fp8": 1978.9,
          "int8": 1978.9}  # fmt: skip
HOPPER_NVL = {"float64": 60, "float32": 60, "tf32": 417.5, "float16": 835.5, "bfloat16": 835.5, "fp8": 1670.5,
              "int8": 1670.5}  # fmt: skip
AMPERE = {"float64": 19.5, "float32": 19.5, "tf32": 156, "float16": 312, "bfloat16": 312, "int8": 624}
CDNA3 = {"float64": 163.4, "float32": 163.4, "tf32": 653.7, "float16": 1307.4, "bfloat16": 1307.4,
         "fp8": 2614.9, "int8": 2614.9}  # fmt: skip
A100 = "NVIDIA A100 Tensor Core GPU data sheet"
H100, H100_PAPER = "NVIDIA H100 Tensor Core GPU data sheet", "NVIDIA H100 white paper"
V100, HGX = "NVIDIA V100 Tensor Core GPU data sheet", "NVIDIA HGX platform data sheet, a board's eighth"
NVL72 = "NVIDIA GB200 and GB300 NVL72 data sheets, a 72nd of the rack"
MI300, MI200 = "AMD Instinct MI300 series data sheets", "AMD Instinct MI200 series data sheets"
# The first that fits decides.
TABLE = (
    _Entry(r"\bV100S", "V100S PCIe", {"float64": 8.2, "float32": 16.4, "float16": 130}, 1134, V100),
    _Entry(r"\bV100-PCIE", "V100 PCIe", {"float64": 7, "float32": 14, "float16": 112}, 900, V100),
    _Entry(r"\bV100\b", "V100", {"float64": 7.8, "float32": 15.7, "float16": 125}, 900, V100),
    _Entry(r"\bA100.*80GB.*PCI|\bA100.*PCI.*80GB", "A100 80GB PCIe", AMPERE, 1935, A100),
    _Entry(r"\bA100\b(?!.*64GB)|PG509-2", "A100 80GB", AMPERE, 2039, A100, least_memory=60 * GIB),
    _Entry(r"\bA100\b(?!.*(64|80)GB)|PG509-2", "A100 40GB", AMPERE, 1555, A100),
    _Entry(r"\bA10G\b", "A10G", {"float32": 35, "tf32": 35, "float16": 70, "bfloat16": 70, "int8": 140}, 600,
           "NVIDIA A10G data sheet"),
    _Entry(r"\bA10\b", "A10", {"float32": 31.2, "tf32": 62.5, "float16": 125, "bfloat16": 125, "int8": 250},
           600, "NVIDIA A10 data sheet"),
    _Entry(r"\bA30\b", "A30", {"float64": 10.3, "float32": 10.3, "tf32": 82, "float16": 165, "bfloat16": 165,
                               "int8": 330}, 933, "NVIDIA A30 data sheet"),
    _Entry(r"\bA40\b", "A40", {"float32": 37.4, "tf32": 74.8, "float16": 149.7, "bfloat16": 149.7,
                               "int8": 299.3}, 696, "NVIDIA A40 data sheet"),
    _Entry(r"\bT4\b", "T4", {"float32": 8.1, "float16": 65, "int8": 130}, 320,
           "NVIDIA T4 specifications"),
    _Entry(r"\bL40S\b", "L40S", {"float32": 91.6, "tf32": 183, "float16": 362, "bfloat16": 362, "fp8": 733,
                                 "int8": 733}, 864, "NVIDIA L40S data sheet"),
    _Entry(r"\bL40\b", "L40", {"float32": 90.5, "tf32": 90.5, "float16": 181, "bfloat16": 181, "fp8": 362,
                               "int8": 362}, 864, "NVIDIA L40 data sheet"),
    _Entry(r"\bL4\b", "L4", {"float32": 30.3, "tf32": 60, "float16": 121, "bfloat16": 121, "fp8": 242.5,
                             "int8": 242.5}, 300, "NVIDIA L4 data sheet"),
    _Entry(r"RTX 2080 Ti", "GeForce RTX 2080 Ti", {"float32": 13.4, "float16": 53.8}, 616,
           "NVIDIA Turing GPU architecture white paper, reference card"),
    _Entry(r"RTX 3090(?! Ti)", "GeForce RTX 3090", {
        "float32": 35.6, "tf32": 35.6, "float16": 71, "bfloat16": 71, "int8": 284,
    }, 936, "NVIDIA Ampere GA102 white paper"),
    _Entry(r"RTX 4090(?! D)", "GeForce RTX 4090", {
        "float32": 82.6, "tf32": 82.6, "float16": 165.2, "bfloat16": 165.2, "fp8": 330.3, "int8": 660.6,
    }, 1008, "NVIDIA Ada GPU architecture white paper"),
    _Entry(r"RTX 5090(?! D)", "GeForce RTX 5090", {
        "float32": 104.8, "tf32": 104.8, "float16": 209.5, "bfloat16": 209.5, "fp8": 419,
    }, 1792, "NVIDIA RTX Blackwell GPU architecture white paper"),
    _Entry(r"\bGH200.*144", "GH200 144GB", HOPPER, 4900, "NVIDIA GH200 Grace Hopper Superchip data sheet"),
    _Entry(r"\bGH200", "GH200 96GB", HOPPER, 4000, "NVIDIA GH200 Grace Hopper Superchip data sheet"),
    _Entry(r"\bH200 NVL", "H200 NVL", HOPPER_NVL, 4800, "NVIDIA H200 Tensor Core GPU data sheet"),
    _Entry(r"\bH200\b", "H200", HOPPER, 4800, "NVIDIA H200 Tensor Core GPU data sheet"),
    _Entry(r"\bH100 NVL", "H100 NVL", HOPPER_NVL, 3900, H100),
    _Entry(r"\bH100 PCIe", "H100 PCIe", {"float64": 51, "float32": 51, "tf32": 378, "float16": 756,
                                         "bfloat16": 756, "fp8": 1513, "int8": 1513}, 2000, H100),
    _Entry(r"\bH100 80GB HBM3|\bH100 SXM|\bH100-SXM", "H100 SXM", HOPPER, 3350, H100_PAPER),
    _Entry(r"\bGB200\b", "GB200", {
        "float64": 40, "float32": 80, "tf32": 1250, "float16": 2500, "bfloat16": 2500, "fp8": 5000,
        "int8": 5000, "fp4": 10000,
    }, 8000, NVL72),
    _Entry(r"\bGB300\b", "GB300", {
        "tf32": 1250, "float16": 2500, "bfloat16": 2500, "fp8": 5000, "fp4": 15000,
    }, 8000, NVL72),
    _Entry(r"\bB200\b", "B200", {"float64": 37, "float32": 75, "tf32": 1125, "float16": 2250,
                                   "bfloat16": 2250, "fp8": 4500, "int8": 4500, "fp4": 9000}, 8000, HGX),
    _Entry(r"\bB300\b", "B300", {"float64": 1.25, "float32": 75, "tf32": 1125, "float16": 2250,
                                   "bfloat16": 2250, "fp8": 4500, "fp4": 13500}, 8000, HGX),
    _Entry(r"\bMI210\b", "MI210", {"float64": 45.3, "float32": 45.3, "float16": 181, "bfloat16": 181,
                                   "int8": 181}, 1638, MI200),
    _Entry(r"\bMI250X\b", "MI250X, one of two dies", {
        "float64": 95.7, "float32": 95.7, "float16": 383, "bfloat16": 383, "int8": 383,
    }, 3277, MI200, per_device=0.5),
    _Entry(r"\bMI250\b", "MI250, one of two dies", {
        "float64": 90.5, "float32": 90.5, "float16": 362.1, "bfloat16": 362.1, "int8": 362.1,
    }, 3277, MI200, per_device=0.5),
    _Entry(r"\bMI300A\b", "MI300A", {"float64": 122.6, "float32": 122.6, "tf32": 490.3, "float16": 980.6,
                                     "bfloat16": 980.6, "fp8": 1961.2, "int8": 1961.2}, 5300, MI300),
    _Entry(r"\bMI300X\b", "MI300X", CDNA3, 5300, MI300, least_memory=180 * GIB),
    _Entry(r"\bMI325X\b", "MI325X", CDNA3, 6000, MI300, least_memory=240 * GIB),
    _Entry(r"\bMI355X\b", "MI355X", {"float64": 78.6, "float32": 157.3, "float16": 2516.6, "bfloat16": 2516.6,
                                     "fp8": 5033.2, "int8": 5033.2, "fp4": 10066.3}, 8000,
           "AMD Instinct MI355X data sheet", least_memory=270 * GIB),
)  # fmt: skip


def peak(device: DeviceProperties) -> DevicePeak | None:
    """The limits of a device by its name and memory; None where it is not in the table or a part of one."""
    if PARTIAL.search(device.name):
        return None
    for entry in TABLE:
        enough = not entry.least_memory or (device.memory_bytes or 0) >= entry.least_memory
        if enough and re.search(entry.pattern, device.name, re.IGNORECASE):
            return DevicePeak(
                device=entry.device,
                flops_per_s={dtype: tera * TERA * entry.per_device for dtype, tera in entry.tflops.items()},
                bytes_per_s=entry.gb_per_s * GIGA * entry.per_device,
                source=entry.source,
            )
    return None
