"""Facts of a trace of the device."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from perfdoctor.facts.device.constant_copies import ConstantCopyFacts
from perfdoctor.facts.device.created_tensors import CreatedTensors
from perfdoctor.facts.device.device import (
    AttentionFacts,
    CopyFacts,
    DeviceFacts,
    KernelFacts,
    MatrixFacts,
    WaitFacts,
)
from perfdoctor.facts.script.backends import BackendFacts, Tf32Settings
from perfdoctor.facts.script.double_precision import DoublePrecision
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import ConstantCopyLine, Location
from perfdoctor.model.ranks import GradientSyncFacts, Straggler
from perfdoctor.trace.results import DevicePeak, IdleCause, KernelClass, Launches
from tests.support import facts, rank_traces

MS = st.floats(0, 1e4)
SHARE = st.floats(0, 1)
CODE = st.sampled_from(["total += loss", "losses.append(loss)", "history.push()", "for x in (", ""])
AT = Location("train.py", 9, "main", "work()")
HEALTHY = {
    DeviceFacts: facts.device(exposed_comm=0.01, exposed_copy=0.005, comm=0.2, host_late=0.02),
    KernelFacts: facts.kernels(
        rank_traces.kernel("gemm", "matmul", 90, dtype="bfloat16", tensor=True),
        rank_traces.kernel("vectorized", "pointwise", 10),
        work=(rank_traces.worked(ms=90, count=50, dtype="bfloat16", flops=150e9),),
    ),
    BackendFacts: BackendFacts(False, None),
    Tf32Settings: Tf32Settings(False, True),
    AttentionFacts: facts.attention(rank_traces.attention(between=4)),
    MatrixFacts: facts.matrices(rank_traces.matrix(512, 512, 512, 90, multiple=64)),
    CreatedTensors: CreatedTensors((rank_traces.site(ms=1, idle=1, made_by="aten::zeros"),), 0.002, 0.002),
    ConstantCopyFacts: ConstantCopyFacts(
        (ConstantCopyLine(AT, "pageable", 1.0, 1e6, 0.0002),), 5, Estimate(0.001, 0.002, 0.002), True
    ),
    CopyFacts: facts.copies(
        rank_traces.copy("HtoD", "pinned", 10),
        share=0.005,
        sites=(rank_traces.site(ms=2, idle=2), rank_traces.site(ms=1, idle=1, made_by="aten::zeros")),
        round_trips=(rank_traces.round_trip(idle=4, copying=1), rank_traces.round_trip(idle=4, computing=4)),
    ),
    WaitFacts: facts.waits(rank_traces.wait(ms=100, idle=1)),
    Launches: rank_traces.launches(),
    DevicePeak: rank_traces.V100,
    DoublePrecision: DoublePrecision(0.0, 0.9, (0.0, 0.0, 0.0), 1_000_000),
    Straggler: facts.straggler(waiting=0.01),
    GradientSyncFacts: facts.comm(exposed=0.01, all=0.2),
}


def constant_lines():
    """Lines that copy constants, however much."""
    amounts = st.floats(0, 1e6), st.floats(0, 1e12), st.floats(0, 1e3)
    return st.builds(ConstantCopyLine, st.just(AT), st.sampled_from(["pageable", "pinned"]), *amounts)


@st.composite
def odd(draw):
    """Facts of any trace."""
    size = st.integers(0, 10**9)
    memory = st.sampled_from(["pageable", "pinned", None])
    dtypes = st.sampled_from(["float32", "tf32", "float16", "bfloat16", None])
    counts = st.integers(1, 10**6)
    idle = draw(st.dictionaries(st.sampled_from([cause.value for cause in IdleCause]), SHARE))
    shares = dict(zip(("exposed_comm", "exposed_copy"), (draw(SHARE), draw(SHARE)), strict=True))
    total = max(1.0, sum(idle.values()) + sum(shares.values()))
    shares = {name: share / total for name, share in (idle | shares).items()}
    return {
        DeviceFacts: facts.device(**shares),
        KernelFacts: facts.kernels(
            *(
                rank_traces.kernel("k", kind.value, draw(MS), draw(counts), draw(dtypes))
                for kind in draw(st.lists(st.sampled_from(KernelClass), max_size=4))
            ),
            share=draw(SHARE),
            work=tuple(
                rank_traces.worked(
                    kind=draw(st.sampled_from(["matmul", "convolution"])),
                    ms=draw(MS),
                    count=draw(counts),
                    dtype=draw(dtypes),
                    flops=draw(st.floats(1, 1e15)),
                    size=draw(st.none() | st.floats(1, 1e12)),
                )
                for _ in range(draw(st.integers(0, 2)))
            ),
        ),
        BackendFacts: BackendFacts(draw(st.none() | st.booleans()), None),
        Tf32Settings: Tf32Settings(draw(st.none() | st.booleans()), draw(st.none() | st.booleans())),
        AttentionFacts: facts.attention(
            *(
                rank_traces.attention(draw(MS), draw(MS), draw(st.booleans()))
                for _ in range(draw(st.integers(0, 2)))
            ),
            unused_weights=draw(st.booleans()),
        ),
        MatrixFacts: facts.matrices(
            rank_traces.matrix(7, 8, 9, draw(MS) + 0.01, draw(dtypes) or "float16"),
            share=draw(SHARE),
            peak=draw(st.sampled_from([None, rank_traces.V100, rank_traces.A100])),
        ),
        ConstantCopyFacts: ConstantCopyFacts(
            tuple(draw(st.lists(constant_lines(), min_size=1, max_size=2))),
            draw(counts),
            Estimate(*sorted(draw(st.tuples(SHARE, SHARE, SHARE)))),
            draw(st.booleans()),
        ),
        CopyFacts: replace(
            facts.copies(
                rank_traces.copy("HtoD", draw(memory), draw(MS) + 0.01, draw(counts), draw(size)),
                share=shares["exposed_copy"],
                sites=tuple(
                    rank_traces.site(
                        draw(st.sampled_from(["HtoD", "DtoH"])),
                        draw(memory),
                        draw(MS),
                        draw(MS),
                        draw(counts),
                        draw(size),
                        made_by=draw(st.none() | st.just("aten::randn")),
                    )
                    for _ in range(draw(st.integers(0, 3)))
                ),
                round_trips=tuple(
                    rank_traces.round_trip(draw(MS), draw(MS), draw(MS), draw(st.booleans()), draw(counts))
                    for _ in range(draw(st.integers(0, 2)))
                ),
            ),
            constants=tuple(draw(st.lists(constant_lines(), max_size=2))),
        ),
        CreatedTensors: CreatedTensors(
            tuple(
                rank_traces.site("HtoD", draw(memory), draw(MS), draw(MS), draw(counts), made_by=by)
                for by in draw(st.lists(st.sampled_from(["aten::randn", "aten::zeros"]), max_size=2))
            ),
            draw(SHARE),
            draw(SHARE),
            tuple(
                facts.line(draw(SHARE), 21, draw(st.sampled_from(["data", "compute", None])))
                for _ in range(draw(st.integers(0, 2)))
            ),
        ),
        WaitFacts: facts.waits(
            *(
                rank_traces.wait(
                    ms=draw(MS),
                    idle=draw(MS),
                    count=draw(counts),
                    host_memory=draw(memory),
                    direction=draw(st.sampled_from(["HtoD", "DtoH", None])),
                )
                for _ in range(draw(st.integers(0, 3)))
            ),
            steps=draw(st.none() | counts),
        ),
        Launches: rank_traces.launches(draw(counts), draw(MS), draw(MS)),
        DevicePeak: rank_traces.V100,
        DoublePrecision: DoublePrecision(
            draw(SHARE),
            draw(SHARE),
            tuple(sorted(draw(st.lists(SHARE, min_size=3, max_size=3)))),
            draw(st.none() | counts),
        ),
        GradientSyncFacts: facts.comm(shares["exposed_comm"], draw(SHARE)),
        Straggler: facts.straggler(
            waiting=draw(SHARE),
            caused=draw(SHARE),
            last=draw(st.integers(0, 9)),
            matched=9,
            excess=draw(st.floats(-1e4, 1e4)),
        ),
    }
