"""Hand-made measured traces, a line each. Times in milliseconds; what is not given is ordinary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

from perfdoctor.model.measured import Location
from perfdoctor.trace.parse.columns import Skipped
from perfdoctor.trace.results import (
    AttentionUse,
    BlockingCalls,
    ClassUse,
    Collectives,
    CopySite,
    CopyUse,
    DevicePeak,
    IdleCause,
    KernelClass,
    KernelUse,
    Launches,
    MatrixUse,
    MemoryUse,
    OpUse,
    RankTrace,
    RoundTrip,
    StepTrace,
    StreamUse,
    Times,
    WorkUse,
)

A100 = DevicePeak(
    "A100 80GB",
    {"float32": 19.5e12, "tf32": 156e12, "float16": 312e12, "bfloat16": 312e12},
    2039e9,
    "the maker's data sheet",
)
V100 = DevicePeak(
    "Tesla V100-SXM2-16GB", {"float32": 15.7e12, "float16": 125e12}, 900e9, "the maker's data sheet"
)


def times(
    span: float = 100.0,
    compute: float = 60.0,
    comm: float = 0.0,
    overlap: float = 0.0,
    copy: float = 0.0,
    copy_overlap: float = 0.0,
) -> Times:
    """Copies overlap with nothing but compute."""
    busy = compute + comm - overlap + copy - copy_overlap
    return Times(*(1e3 * ms for ms in (span, busy, compute, comm, overlap, copy, copy_overlap)))


def step(
    number: int, data: float = 0.0, idle: Mapping[str, float] | None = None, **given: float
) -> StepTrace:
    """A step with this much time in DataLoader; idle time that `idle` does not name is the host's."""
    measured = times(**given)
    causes = {IdleCause(name): 1e3 * ms for name, ms in (idle or {}).items()}
    rest = measured.idle_us - sum(causes.values())
    causes[IdleCause.HOST_LATE] = causes.get(IdleCause.HOST_LATE, 0.0) + rest
    return StepTrace(f"ProfilerStep#{number}", number * 10**8, measured, 1e3 * data, causes)


def use(kind: str, ms: float, count: int = 100, tensor: float | None = 0.0, **given: Any) -> ClassUse:
    """A class of kernels; `tensor` ms of it on tensor cores, `dtypes` in ms."""
    dtypes = {name: 1e3 * part for name, part in given.pop("dtypes", {}).items()}
    cores = None if tensor is None else 1e3 * tensor
    return ClassUse(KernelClass(kind), count, 1e3 * ms, cores, dtypes=dtypes, **given)


def kernel(
    name: str,
    kind: str,
    ms: float,
    count: int = 100,
    dtype: str | None = "float32",
    tensor: bool = False,
    beside: float = 0.0,
    op: str = "aten::mm",
) -> KernelUse:
    """All launches of one kernel, `beside` ms of it while others computed."""
    return KernelUse(name, KernelClass(kind), count, 1e3 * ms, dtype, tensor, 0.5, op, 1e3 * beside)


def copy(direction: str, memory: str | None, ms: float, count: int = 10, size: int = 10_000_000) -> CopyUse:
    """Copies of `size` bytes each."""
    return CopyUse(direction, memory, count, count * size, 1e3 * ms)


def wait(
    op: str | None = "aten::item",
    ms: float = 10.0,
    idle: float = 5.0,
    count: int = 50,
    line: int | None = 12,
    call: str = "cudaStreamSynchronize",
    **given: Any,
) -> BlockingCalls:
    """Calls that waited `ms` in all, after which the device idled `idle`."""
    at = Location("train.py", line, "main") if line else None
    return BlockingCalls(call, op, at, None, count, 1e3 * ms, 1e3 * idle, **given)


def site(
    direction: str = "HtoD",
    memory: str | None = "pinned",
    ms: float = 10.0,
    idle: float = 0.0,
    count: int = 50,
    size: int = 1_000_000,
    line: int | None = 21,
    **given: Any,
) -> CopySite:
    """Copies of `size` bytes at a line: `ms` that nothing hides, and the device idles `idle` beside."""
    at = Location("train.py", line, "main") if line else None
    fields: dict[str, Any] = {
        "op": "aten::to",
        "dtype": "float32",
        "shape": (32, 3, 224, 224),
        "made_by": None,
        "us": 1e3 * ms,
        "exposed_us": 1e3 * ms,
        **given,
    }
    return CopySite(
        direction=direction,
        host_memory=memory,
        at=at,
        count=count,
        bytes=count * size,
        idle_us=1e3 * idle,
        **fields,
    )


def round_trip(
    idle: float = 50.0, copying: float = 5.0, computing: float = 0.0, same: bool = True, count: int = 5
) -> RoundTrip:
    """Tensors that leave the device at line 30 and come back at line 33; ms in all."""
    return RoundTrip(
        out="aten::to",
        back="aten::to",
        out_at=Location("train.py", 30, "main"),
        back_at=Location("train.py", 33, "main"),
        same=same,
        count=count,
        bytes=count * 1_000_000,
        us=1e3 * (idle + copying),
        exposed_us=1e3 * copying,
        idle_us=1e3 * idle,
        computing_us=1e3 * computing,
        computing=("aten::sort",) if computing else (),
    )


def attention(
    between: float = 50.0,
    products: float = 50.0,
    backward: bool = False,
    sizes: tuple[int, ...] | None = (96, 512, 512),
) -> AttentionUse:
    """Attention written out; `sizes` are heads, queries and keys."""
    heads, queries, keys = sizes or (None, None, None)
    return AttentionUse(backward, heads, queries, keys, None, 60, 1e3 * between, 1e3 * products)


def worked(
    op: str = "aten::mm", kind: str = "matmul", ms: float = 100.0, count: int = 50, dtype: str = "float32",
    flops: float = 1e9, size: float | None = 1e6, shapes: tuple[tuple[int, ...], ...] = ((512, 512), (512, 512)),
) -> WorkUse:  # fmt: skip
    """Calls of one operator with the same inputs, `flops` operations and `size` bytes each."""
    return WorkUse(op, KernelClass(kind), shapes, dtype, count, 1e3 * ms, flops, size)


def matrix(
    m: int, n: int, k: int, ms: float, dtype: str = "float16", count: int = 10, multiple: int = 1
) -> MatrixUse:
    """Products of one shape."""
    return MatrixUse("aten::mm", 1, m, n, k, dtype, count, 1e3 * ms, multiple)


def launches(count: int = 1000, queue: float = 5.0, delay: float = 20.0) -> Launches:
    """A host that is `queue` launches ahead."""
    return Launches(count, delay, delay, 2 * delay, queue, 50, 5.0 * count)


def rank(steps: tuple[StepTrace, ...] = (), **given: Any) -> RankTrace:
    """The trace of one rank: five steps of 100 ms on a V100, 60 ms of them computing, unless given."""
    steps = _in_turn(steps or tuple(step(number) for number in range(3, 8)))
    total = [sum(getattr(entry.times, name) for entry in steps) for name in Times.__dataclass_fields__]
    idle: dict[IdleCause, float] = {}
    for entry in steps:
        for cause, us in entry.idle_us.items():
            idle[cause] = idle.get(cause, 0.0) + us
    fields: dict[str, Any] = {
        "file": "traces/rank0.pt.trace.json",
        "rank": 0,
        "world_size": None,
        "device": "Tesla V100-SXM2-16GB",
        "devices": (0,),
        "events": 12_000,
        "device_events": 5_000,
        "begin_ns": 0,
        "end_ns": round(1e3 * total[0]),
        "times": Times(*total),
        "window": Times(*total) if steps else None,
        "streams": (StreamUse(0, 7, 5_000, total[1], 10.0, 5.0, 1.0),),
        "idle_us": idle,
        "launches": launches(),
        "classes": (use("matmul", 200), use("pointwise", 100)),
        "kernels": (kernel("volta_sgemm_128x64_nn", "matmul", 200), kernel("vectorized", "pointwise", 100)),
        "ops": (
            OpUse("aten::mm", 500, 20_000.0, 200_000.0, 500),
            OpUse("autograd::engine::evaluate_function: MmBackward0", 500, 0.0, 0.0, 0),
        ),
        "copies": (),
        "sites": (),
        "round_trips": (),
        "blocking": (),
        "matrices": (),
        "work": (),
        "attention": (),
        "peak": V100,
        "roofs": (),
        "collectives": Collectives((), ()),
        "memory": MemoryUse(4 * 10**9, 5 * 10**9, 16 * 10**9),
        "runtime_us": {"cudaLaunchKernel": (5_000, 30_000.0)},
        "dataloader_us": sum(entry.dataloader_us for entry in steps),
        "dataloader_count": len(steps),
        "sync_us": 0.0,
        "steps": steps,
        "skipped": Skipped(),
    }
    return RankTrace(**(fields | given))


def _in_turn(steps: tuple[StepTrace, ...]) -> tuple[StepTrace, ...]:
    """The steps one right after the other, as a host marks them whose device keeps up."""
    ends_us = accumulate((entry.times.span_us for entry in steps), initial=0.0)
    begins_ns = (steps[0].begin_ns + round(1e3 * us) for us in ends_us)
    return tuple(replace(entry, begin_ns=begin) for entry, begin in zip(steps, begins_ns, strict=False))


def unmarked(**given: Any) -> RankTrace:
    """A trace without step marks."""
    return replace(rank(**given), steps=())


def host_only(data: float = 0.0, ops: float = 60.0, steps: int = 5) -> RankTrace:
    """A trace without a device: steps of 100 ms, `data` of each in DataLoader, `ops` in operators."""
    marked = tuple(step(number, data=data, compute=0.0) for number in range(3, 3 + steps))
    return replace(
        rank(marked),
        steps=tuple(replace(entry, idle_us={}, operators_us=1e3 * ops) for entry in marked),
        window=None,
        device=None,
        devices=(),
        device_events=0,
        times=None,
        streams=(),
        idle_us={},
        launches=None,
        classes=(),
        kernels=(),
        ops=(OpUse("aten::mm", 500, 1e3 * ops * steps, 0.0, 0),),
        operators_us=1e3 * ops * steps,
        peak=None,
        memory=None,
        runtime_us={},
    )
