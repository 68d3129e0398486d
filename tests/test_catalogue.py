"""What authors of tips forget, checked for all of them at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfdoctor import catalogue
from perfdoctor.analysis.device import CopyFacts, DeviceFacts, KernelFacts, MatrixFacts, WaitFacts
from perfdoctor.analysis.findings import gain_of
from perfdoctor.analysis.ranks import RanksFacts
from perfdoctor.analysis.stepmodel import StepModel, build
from perfdoctor.change import Change
from perfdoctor.model import (
    Advice,
    CpuFacts,
    EvalFacts,
    LoaderFacts,
    Phase,
    RunFacts,
    SaveFacts,
    StackFacts,
    StepFacts,
    ThreadFacts,
)
from perfdoctor.trace.results import IdleCause, KernelClass, Launches, Peak
from tests import facts, ranktraces

TIPS = catalogue.tips()
SECTIONS = ("## What it sees", "## By hand", "## When not")
HEALTHY_STEP = facts.step(data_wait=0.2, forward=9, backward=12, optimizer=2, other=0.5, cpu=46)
HEALTHY_LOADER = facts.loader(workers=2, batch=4, epochs=3, epoch_start_s=0.06, steady_wait_s=0.0002)
HEALTHY_CPU = facts.cpu(cores=4, busy=2.3, worker_cores=0.3)
HEALTHY = {
    RunFacts: facts.run(),
    StepFacts: HEALTHY_STEP,
    LoaderFacts: HEALTHY_LOADER,
    CpuFacts: HEALTHY_CPU,
    StepModel: facts.model(HEALTHY_STEP, HEALTHY_LOADER, HEALTHY_CPU),
    ThreadFacts: facts.threads(4),
    StackFacts: facts.stacks(
        facts.line(0.01, kind="logging"), facts.line(0.01, kind="data"), loader=(facts.line(0.9),)
    ),
    EvalFacts: facts.evals(seconds=1.0),
    SaveFacts: facts.saves(each=20, between=500),
    DeviceFacts: facts.device(exposed_comm=0.01, exposed_copy=0.005, comm=0.2, host_late=0.02),
    KernelFacts: facts.kernels(
        ranktraces.kernel("gemm", "matmul", 90, dtype="bfloat16", tensor=True),
        ranktraces.kernel("vectorized", "pointwise", 10),
    ),
    MatrixFacts: facts.matrices(ranktraces.matrix(512, 512, 512, 90, multiple=64)),
    CopyFacts: facts.copies(ranktraces.copy("HtoD", "pinned", 10), share=0.005),
    WaitFacts: facts.waits(ranktraces.wait(ms=100, idle=1)),
    Launches: ranktraces.launches(),
    Peak: ranktraces.V100,
    RanksFacts: facts.ranks(waiting=0.01),
}


each = pytest.mark.parametrize("tip", TIPS, ids=lambda tip: tip.id)


def test_the_catalogue_is_not_empty():
    assert len(TIPS) >= 8
    assert len({tip.id for tip in TIPS}) == len(TIPS)


@each
def test_its_page_has_every_section_in_order(tip):
    places = [tip.doc.find(section) for section in SECTIONS]
    assert -1 not in places
    assert places == sorted(places)


@each
def test_its_first_line_is_one_sentence(tip):
    first = tip.doc.split("\n\n")[0]
    assert first.endswith(".")
    assert first.count(". ") == 0


@each
def test_its_title_is_an_imperative_without_a_full_stop(tip):
    assert tip.title[0].isupper()
    assert not tip.title.endswith(".")


@each
def test_it_has_tests(tip):
    assert (Path(__file__).parent / "tips" / f"test_{tip.id.replace('-', '_')}.py").is_file()


@each
def test_it_is_silent_on_a_healthy_run(tip):
    assert tip.judge(**{name: HEALTHY[kind] for name, kind in tip.needs.items()}) is None


MS = st.floats(0, 1e4)
SHARE = st.floats(0, 1)


@st.composite
def patients(draw):
    """Facts of any run, however odd, that agree with each other."""
    of_step = facts.step(
        count=draw(st.integers(1, 10**6)),
        cpu=draw(st.none() | MS),
        **{phase.value: draw(MS) + 0.001 for phase in Phase},
    )
    batch, cores, seconds = draw(MS), st.floats(0, 256), st.floats(0, 100)
    of_loader = facts.loader(
        workers=draw(st.integers(0, 16)),
        batch=batch,
        cpu=batch * draw(SHARE),
        p95=draw(MS),
        epochs=draw(st.integers(0, 99)),
        epoch_start_s=draw(st.none() | seconds),
        steady_wait_s=draw(st.none() | seconds),
        batches_per_step=draw(st.floats(0.001, 100)),
        iterable=draw(st.booleans()),
        epoch_wait_s=draw(SHARE),
        other_wait_s=draw(SHARE),
    )
    of_cpu = facts.cpu(
        cores=draw(st.floats(0.1, 256)),
        busy=draw(st.none() | cores),
        worker_cores=draw(st.none() | cores),
        other_cores=draw(st.none() | cores),
    )
    kinds = st.sampled_from(["data", "logging", "checkpoint", None])
    lines = [
        facts.line(draw(SHARE), number, draw(kinds), draw(st.integers(1, 999)))
        for number in range(draw(st.integers(0, 4)))
    ]
    return {
        RunFacts: facts.run(),
        StepFacts: of_step,
        LoaderFacts: of_loader,
        CpuFacts: of_cpu,
        StepModel: build(of_step, of_loader, of_cpu),
        ThreadFacts: facts.threads(
            draw(st.integers(1, 512)), draw(st.none() | st.just("OMP_NUM_THREADS")), draw(st.none() | MS)
        ),
        StackFacts: facts.stacks(*lines, loader=tuple(lines), loader_samples=draw(st.integers(0, 999))),
        EvalFacts: facts.evals(seconds=draw(MS), grad=draw(MS)),
        SaveFacts: facts.saves(
            count=draw(st.integers(0, 99)), each=draw(MS), between=draw(st.floats(0.01, 1e6))
        ),
    }


@st.composite
def traced(draw):
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
                ranktraces.kernel("k", kind.value, draw(MS), draw(counts), draw(dtypes))
                for kind in draw(st.lists(st.sampled_from(KernelClass), max_size=4))
            ),
            share=draw(SHARE),
        ),
        MatrixFacts: facts.matrices(
            ranktraces.matrix(7, 8, 9, draw(MS) + 0.01, draw(dtypes) or "float16"), share=draw(SHARE)
        ),
        CopyFacts: facts.copies(
            ranktraces.copy("HtoD", draw(memory), draw(MS) + 0.01, draw(counts), draw(size)),
            share=shares["exposed_copy"],
        ),
        WaitFacts: facts.waits(
            *(
                ranktraces.wait(ms=draw(MS), idle=draw(MS), count=draw(counts))
                for _ in range(draw(st.integers(0, 3)))
            ),
            steps=draw(st.none() | counts),
        ),
        Launches: ranktraces.launches(draw(counts), draw(MS), draw(MS)),
        Peak: ranktraces.V100,
        RanksFacts: facts.ranks(
            waiting=draw(SHARE),
            caused=draw(SHARE),
            last=draw(st.integers(0, 9)),
            matched=9,
            excess=draw(st.floats(-1e4, 1e4)),
        ),
    }


@each
@settings(deadline=None, max_examples=50)
@given(patient=patients(), trace=traced())
def test_it_never_raises_and_its_change_is_in_order(tip, patient, trace):
    patient = patient | trace
    needed = {name: patient[kind] for name, kind in tip.needs.items()}
    if any(isinstance(value, str) for value in needed.values()):
        return
    advice = tip.judge(**needed)
    if advice is None:
        return
    assert isinstance(advice, Advice)
    assert advice.because
    change = advice.change or Change()
    for share in (change.step, change.batch, change.starts, change.moved):
        assert -1e9 < share.low <= share.likely <= share.high <= 1 + 1e-9
    gain = gain_of(patient[StepModel] if isinstance(patient[StepModel], StepModel) else None, [change])
    assert 0 < gain.low <= gain.likely <= gain.high < float("inf")
    assert all(
        0 <= float(share) <= 100 for because in advice.because for share in re.findall(r"([\d.]+)%", because)
    )
