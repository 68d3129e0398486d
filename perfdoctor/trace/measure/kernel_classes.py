"""Tells what a kernel is for by its name, or else by the operator that launched it."""

from __future__ import annotations

import re
from functools import lru_cache

from perfdoctor.trace.parse.columns import DeviceKind
from perfdoctor.trace.results import KernelClass

Rules = tuple[tuple[KernelClass, str], ...]  # of patterns, each compiled when a name comes to it

COMMUNICATION = re.compile(
    r"^(void )?(nccl|rccl|msccl)|nccl\w*DevKernel|mscclp?p?::|nvshmem|rocshmem|deep_?ep::|"
    r"cross_device_reduce|(one|two|1|2)_?(shot|stage)_?(push_)?all_?reduce|all_?reduce_?\w*(one|two|1|2)_?(shot|stage)|"
    r"multimem_\w*(all|reduce|gather)|quick_?(all)?reduce|userbuffers",
    re.IGNORECASE,
)


# Names by Inductor: triton_poi (pointwise), _red and _per (reductions), _for (foreach), _tem (templates).
FUSED: Rules = (
    (KernelClass.ATTENTION, r"^triton_(tem|flex)\w*(attention|sdpa)"),
    (KernelClass.CONVOLUTION, r"^triton_(tem)\w*conv"),
    (KernelClass.MATMUL, r"^triton_(tem|mm|bmm)"),
    (KernelClass.OPTIMIZER, r"^triton_for\w*(adam|sgd|lerp|addcdiv)"),
    (KernelClass.NORMALISATION, r"^triton_(red|per|mix)\w*(layer_norm|batch_norm|group_norm|rms_norm|rsqrt)"),
    (KernelClass.REDUCTION, r"^triton_(red|per|mix|spl)"),
    (KernelClass.POINTWISE, r"^triton_(poi|for)"),
)
# The first that fits decides, so the particular comes before the general.
NAMED: Rules = (
    (KernelClass.ATTENTION, (
     r"flash_?(attn|fwd|bwd|attention|mla|infer)|fmha|attention|attn|paged_?att|mha_?(fwd|bwd)|sdpa|\bmla_|"
     r"batch_?(prefill|decode)with")),
    (KernelClass.OPTIMIZER, (
     r"(adam|adamw|sgd|lamb|adagrad|rmsprop|lion|novograd|lars|adadelta)_?(functor|math|kernel|capturable|update|"
     r"stage)|fused_?(adam|sgd|lamb|adagrad|lion|rmsprop)|multi_tensor_(adam|sgd|lamb)|koptimizer|"
     r"split_embedding_backward_codegen_(?!dense)")),
    (KernelClass.NORMALISATION, (
     r"(batch|layer|group|instance|rms)_?norm|rowwisemoments|gammabeta|\bbn_(fw|bw)|bn_?(fwd|bwd)|welford|"
     r"computefusedparams|dgamma|norm_(fwd|bwd|kernel)")),
    (KernelClass.LAYOUT, (
     r"nchwtonhwc|nhwctonchw|(nchw|nhwc)_?(to|2)_?(nchw|nhwc)|cnhw|transpose|tensortransform|subtensorop|"
     r"im2d?2?col|col2im|convert_?layout|permute|repack")),
    (KernelClass.CONVOLUTION, (
     r"conv(?!ert)|winograd|[wd]grad|fprop|[sh]cudnn|cudnn::(cnn|detail|winograd|gemm)|cask_cudnn|"
     r"igemm_(fwd|bwd|wrw)|"
     r"^(void )?fft[12]d_|flip_filter|pointwise_mult_and_sum_complex|depthwise|bwd_weight|"
     r"compute\w*OffsetsKernel")),
    (KernelClass.MATMUL, (
     r"gemm|gemv|cijk_|nvjet|cublas(?!.*transpose)|matmul|(^|_)b?mm_|_mm$|split_?k_?reduce|xmma|tensorop|"
     r"dot_kernel|reduce_1block|wmma|moe_?(fused|gemm)|fused_moe|marlin|postgsu|stream_?k|\b(ger|trsm|syrk|symm)_?kernel")),
    (KernelClass.OTHER, r"(^|_)fft(_rtc|$)"),  # of cuFFT and rocFFT, which no compiler takes apart
    # What a runtime copies and fills by kernels of its own is work of the device like any other.
    (KernelClass.POINTWISE, r"copybuffer|copy_?image|memcpy|fillbuffer|memset|fill_?image"),
    (KernelClass.POINTWISE, r"elementwise|distribution"),
    (KernelClass.REDUCTION, (
     r"reduc|softmax|argm(ax|in)|cum(sum|prod)|scan|sort|top_?k|histogram|loss|cross_?entropy|pool|l[2p]_?norm|"
     r"norm_?functor|(^|_)sums?_|(^|_)sum$|mean|median|kth_?value|unique|segment|nonzero|compact|bucketize|"
     r"multinomial|embedding_?bag|run_?length|criterion")),
    (KernelClass.POINTWISE, (
     r"pointwise|unrolled|vectorized|index|indices|gather|scatter|embedding|embs?_|dropout|random|philox|cat_?array|"
     r"(^|_)cat_|fill|copy|multi_tensor|foreach|activation|act_and_mul|[sg]elu|silu|relu|swiglu|rotary|rope|tri[ul]|"
     r"range|where|flip|roll|repeat|expand|upsample|interpolat|pad|cast|convert|quant|scale|add|mul|lerp|"
     r"op_?tensor|thrust|transform|functor|unary|binary|bounds_check|clamp|mask|sample|shuffle|finite|cache|"
     r"optensor|lengths|offsets")),
)  # fmt: skip
# What an operator is for. `^` of aten: these are operators, not whatever carries such a word in its name.
BY_OPERATOR: Rules = (
    (KernelClass.ATTENTION, r"attention|flash|fmha|sdpa"),
    (KernelClass.CONVOLUTION, r"conv(?!ert)"),
    (KernelClass.MATMUL, r"^aten::(addmm|b?mm|baddbmm|addbmm|addmv|mv|dot|_\w+_mm)\b|gemm|matmul|linear"),
    (KernelClass.NORMALISATION, r"(batch|layer|group|instance|rms)_?norm"),
    (KernelClass.OPTIMIZER, r"^Optimizer|_fused_(adam|sgd|adagrad)"),
    (KernelClass.CLIPPING, r"^aten::_(foreach|amp)_"),
    (KernelClass.LAYOUT, r"^aten::(permute|transpose|contiguous|\w+_shuffle)\b"),
    (KernelClass.REDUCTION, (
     r"^aten::(sum|mean|a?max|a?min|argm\w+|any|all|cumsum|sort|topk|_?(log_)?softmax\w*|\w+_loss\w*|unique\w*|"
     r"nonzero|norm|std|var|prod|logsumexp|multinomial|\w*pool\w*)\b")),
    # What libraries compute in kernels of their own, which no compiler takes apart.
    (KernelClass.OTHER, (
     r"^aten::(_?(cudnn|miopen)_rnn|_fft_|fft_|_?linalg_|cholesky|lu_|_lu_|geqrf|ormqr|triangular_solve|_?sparse|"
     r"_?ctc_loss|_cudnn_ctc|grid_sampler|_?cudnn_grid)")),
    (KernelClass.POINTWISE, r"^aten::|^prims::|^triton_(poi|for)"),
)  # fmt: skip
# Functions that run whatever their template arguments say.
WRAPPER = re.compile(
    r"(^|::)(kernel\d*|device_kernel|globalkernel|kentry|multi_tensor_apply_kernel|_kernel_agent|static_kernel)$|"
    r"^(cutlass\w*|ck|ck_tile|thrust)::",
    re.IGNORECASE,
)
RESULT_TYPE = re.compile(r"^(void|std::enable_if<.*?>::type) ")
COPYING_LISTS = "aten::_foreach_copy_"
UPDATING = (KernelClass.POINTWISE, KernelClass.REDUCTION, KernelClass.CLIPPING, KernelClass.OTHER)


def is_communication(name: str) -> bool:
    """Whether a kernel is communication: NCCL's, RCCL's, and all-reduces written by hand."""
    return COMMUNICATION.search(name) is not None


def kernel_class(kind: int, name: str, op: str | None, place: KernelClass | None) -> KernelClass:
    """The class of a device event. `op` launched it; `place`: the class of what is done there, if of any.

    A gemm that a convolution launched is convolution, and a pointwise kernel or reduction inside an
    optimizer's step is the optimizer. Operators on lists of tensors work on parameters and gradients: no
    model is written so. One that only copies moves them, as sharding does: it clips and averages nothing.
    """
    if kind == DeviceKind.COPY:
        return KernelClass.COPY
    if kind == DeviceKind.MEMSET:
        return KernelClass.MEMSET
    launcher = by_operator(op) if op else None
    kernel = by_name(name) or launcher or KernelClass.OTHER
    if kernel is KernelClass.MATMUL and launcher is KernelClass.CONVOLUTION:
        return KernelClass.CONVOLUTION
    if kernel not in UPDATING:
        return kernel
    if op == COPYING_LISTS and place is not KernelClass.OPTIMIZER:
        return KernelClass.OTHER
    return place or (KernelClass.CLIPPING if launcher is KernelClass.CLIPPING else kernel)


@lru_cache(maxsize=4096)
def by_name(name: str) -> KernelClass | None:
    """The class of a kernel as far as its name tells."""
    if is_communication(name):
        return KernelClass.COMMUNICATION
    function = function_name(name)
    if WRAPPER.search(function):
        return _first(FUSED, name) or _first(NAMED, name)
    return _first(FUSED, name) or _first(NAMED, function) or _first(NAMED, name)


@lru_cache(maxsize=4096)
def by_operator(op: str) -> KernelClass | None:
    """The class of what an operator launches, as far as its name tells."""
    return _first(BY_OPERATOR, op)


def function_name(name: str) -> str:
    """A kernel's name without its result type, template arguments and parameters."""
    name = name.replace("(anonymous namespace)::", "")
    name = RESULT_TYPE.sub("", name)
    return re.split(r"[<(]", name, maxsplit=1)[0]


def _first(rules: Rules, text: str) -> KernelClass | None:
    return next((kind for kind, pattern in rules if re.search(pattern, text, re.IGNORECASE)), None)
