"""Tells from a kernel's name which numbers it computes with, and whether on tensor cores."""

from __future__ import annotations

import re
from functools import lru_cache

from perfdoctor.trace.results import KernelClass

# The first that is found decides: a name may hold the type of its data and of its sums. Each is compiled when
# a name comes to it.
BY_WORD = (
    ("fp4", r"(?i)mxfp4|nvfp4|e2m1|(?<![a-z])fp4"),
    ("fp8", r"(?i)e4m3|e5m2|(?<![a-z])fp8|float8"),
    ("tf32", r"(?i)tf32"),
    ("bfloat16", r"(?i)bf16|bfloat16|DF16b"),
    ("float16", r"(?i)fp16|f16f16|_f16_|h884|h1688|h16816|hgemm|hcudnn|cutlass::half_t|half\b|__half"),
    ("int8", r"[iI]nt8|i8816|i16832|imma|_s8_"),
    ("tf32", r"s1688(gemm|fprop|dgrad|wgrad|cudnn)"),  # 8-deep products of 32-bit inputs, since Ampere
    ("float64", r"dgemm|\bdouble\b|_f64|d884"),
    ("complex64", r"cgemm|complex"),
    ("float32", r"sgemm|scudnn|_f32_|f32f32|\bfloat\b"),
)
# cuBLAS since 12.4: nvjet_tst_..., three letters for inputs, sums and output.
NVJET = re.compile(r"nvjet_(?:sm\d+_)?([a-z])[a-z]{2}_")
NVJET_INPUTS = {"h": "float16", "t": "bfloat16", "d": "float64", "q": "fp8"}
# Tensile: Cijk_<A>_<B>_<types>_..., where the first letter is that of the inputs.
TENSILE = re.compile(r"Cijk_\w{4}_\w{4}_(F8|B8|I8|[SDHBCZ])")
TENSILE_INPUTS = {"F8": "fp8", "B8": "fp8", "I8": "int8", "S": "float32", "D": "float64", "H": "float16",
                  "B": "bfloat16", "C": "complex64", "Z": "complex128"}  # fmt: skip
MATRIX_INSTRUCTION = re.compile(r"_MI\d+x\d+")
SIGNATURE = re.compile(r"\([^()]*at::Tensor[^()]*\)")  # of the host's function around a lambda
# Types in the template arguments of torch's own kernels: the first is that of the data.
TEMPLATE = re.compile(r"BFloat16|bfloat16|c10::Half|__half|\bdouble\b|\bfloat\b|Float8\w+|complex<float>")
TEMPLATE_TYPES = {"BFloat16": "bfloat16", "bfloat16": "bfloat16", "c10::Half": "float16", "__half": "float16",
                  "double": "float64", "float": "float32", "complex<float>": "complex64"}  # fmt: skip
TENSOR_CORES = re.compile(
    r"(?i)tensorop|tensor\d+x\d+x\d+|[shid](884|1688|16816|16832|8816)|[hi]mma|wgmma|gmma|utcmma|nvjet|"
    r"flash_?(fwd|bwd|attn|attention)|sm(90|100|103|120)_xmma|xdl|mfma|wmma|tf32|fmha_(fwd|bwd|v3)|igemm_(fwd|bwd|wrw)_gtc|_matmul_ogs|marlin"
)
PLAIN_CORES = re.compile(
    r"(?i)(volta|maxwell|pascal|turing|ampere|hopper)_(s|c|gc|z)gemm|scudnn|simt|gemv|fft[12]d|convolve_sgemm|"
    r"[wd]grad(2d)?_(alg[01]_)*(engine|1)|dot_kernel|split_?k_?reduce|gemmk1|gemmSN|_ffma_|sgemm_largek|reduce_1block|winograd_nonfused|offsetsKernel"
)
ON_TENSOR_CORES = (KernelClass.MATMUL, KernelClass.CONVOLUTION, KernelClass.ATTENTION, KernelClass.OTHER)
INPUT_TYPES = {
    "float": "float32", "double": "float64", "c10::half": "float16", "c10::bfloat16": "bfloat16",
    "half": "float16", "bfloat16": "bfloat16", "signed char": "int8", "c10::float8_e4m3fn": "fp8",
    "c10::float8_e5m2": "fp8", "c10::float8_e4m3fnuz": "fp8", "c10::float8_e5m2fnuz": "fp8",
    "c10::complex<float>": "complex64", "unsigned char": "uint8", "int": "int32", "long int": "int64",
    "long": "int64", "bool": "bool",
}  # fmt: skip
BYTES = {"fp4": 0.5, "fp8": 1, "int8": 1, "uint8": 1, "bool": 1, "float16": 2, "bfloat16": 2, "float32": 4,
         "tf32": 4, "int32": 4, "float64": 8, "int64": 8, "complex64": 8, "complex128": 16}  # fmt: skip


@lru_cache(maxsize=4096)
def dtype_of(name: str) -> str | None:
    """The number type of a kernel's data by its name, None where it does not say."""
    nvjet, tensile = NVJET.search(name), TENSILE.match(name)
    if nvjet:
        return NVJET_INPUTS.get(nvjet[1])
    if tensile:
        return TENSILE_INPUTS[tensile[1]]
    if "at::native" in name:
        template = TEMPLATE.search(SIGNATURE.sub("", name))
        return TEMPLATE_TYPES.get(template[0], "fp8") if template else None
    return next((dtype for dtype, pattern in BY_WORD if re.search(pattern, name)), None)


def tensor_cores(name: str, kind: KernelClass) -> bool | None:
    """Whether a kernel runs on tensor or matrix cores; None where its name does not say."""
    if kind not in ON_TENSOR_CORES:
        return False
    if TENSILE.match(name):
        return MATRIX_INSTRUCTION.search(name) is not None
    if TENSOR_CORES.search(name):
        return True
    return False if PLAIN_CORES.search(name) else None


def input_type(recorded: str) -> str | None:
    """The number type of an operator's input as the profiler spells it: "c10::BFloat16", "float"."""
    return INPUT_TYPES.get(recorded.lower())
