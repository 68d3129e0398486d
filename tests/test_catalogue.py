"""What authors of tips forget, checked for all of them at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfdoctor import catalogue
from perfdoctor.analysis.backends import BackendFacts
from perfdoctor.analysis.between import BetweenFacts
from perfdoctor.analysis.built import ModelFacts, OptimizerFacts
from perfdoctor.analysis.called import BiasFacts, PrecisionFacts, RepeatFacts
from perfdoctor.analysis.copies import CopyLines
from perfdoctor.analysis.debugging import DebugFacts
from perfdoctor.analysis.device import (
    AttentionFacts,
    CopyFacts,
    DeviceFacts,
    KernelFacts,
    MatrixFacts,
    WaitFacts,
)
from perfdoctor.analysis.exchange import CommFacts
from perfdoctor.analysis.findings import gain_of
from perfdoctor.analysis.gradients import ClearingFacts, ZeroingFacts
from perfdoctor.analysis.nests import NestFacts
from perfdoctor.analysis.network import NetworkFacts
from perfdoctor.analysis.orphans import OrphanFacts
from perfdoctor.analysis.padding import PaddingFacts
from perfdoctor.analysis.parallel import ParallelFacts
from perfdoctor.analysis.pauses import PauseFacts
from perfdoctor.analysis.ranks import RanksFacts
from perfdoctor.analysis.retained import RetainedFacts
from perfdoctor.analysis.sizes import SizeFacts
from perfdoctor.analysis.stepmodel import StepModel, build
from perfdoctor.analysis.storage import StorageFacts
from perfdoctor.analysis.threads import ThreadWork
from perfdoctor.analysis.validation import ValidationFacts
from perfdoctor.analysis.workers import WorkerMemory
from perfdoctor.batch import BatchFacts, Stage
from perfdoctor.change import Change
from perfdoctor.model import (
    Advice,
    CpuFacts,
    DiskFacts,
    EvalFacts,
    GpuFacts,
    LoaderFacts,
    Location,
    MemoryFacts,
    Phase,
    RunFacts,
    SaveFacts,
    StackFacts,
    StepFacts,
    ThreadFacts,
)
from perfdoctor.trace.results import IdleCause, KernelClass, Launches, Peak
from perfdoctor.trials import flags
from tests import builtfacts, facts, hostfacts, loadfacts, ranktraces

TIPS = catalogue.tips()
TWEAKS = catalogue.tweaks()
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
    StackFacts: facts.stacks(facts.line(0.01, kind="logging"), facts.line(0.01, kind="data")),
    EvalFacts: facts.evals(seconds=1.0),
    SaveFacts: facts.saves(each=20, between=500),
    DeviceFacts: facts.device(exposed_comm=0.01, exposed_copy=0.005, comm=0.2, host_late=0.02),
    KernelFacts: facts.kernels(
        ranktraces.kernel("gemm", "matmul", 90, dtype="bfloat16", tensor=True),
        ranktraces.kernel("vectorized", "pointwise", 10),
        work=(ranktraces.worked(ms=90, count=50, dtype="bfloat16", flops=150e9),),
    ),
    BackendFacts: BackendFacts(False, None),
    AttentionFacts: facts.attention(ranktraces.attention(between=4)),
    MatrixFacts: facts.matrices(ranktraces.matrix(512, 512, 512, 90, multiple=64)),
    CopyFacts: facts.copies(
        ranktraces.copy("HtoD", "pinned", 10),
        share=0.005,
        sites=(ranktraces.site(ms=2, idle=2), ranktraces.site(ms=1, idle=1, made_by="aten::zeros")),
        detours=(ranktraces.detour(idle=4, copying=1), ranktraces.detour(idle=4, computing=4)),
    ),
    WaitFacts: facts.waits(ranktraces.wait(ms=100, idle=1)),
    Launches: ranktraces.launches(),
    Peak: ranktraces.V100,
    RanksFacts: facts.ranks(waiting=0.01),
    CommFacts: facts.comm(exposed=0.01, all=0.2),
    PauseFacts: hostfacts.pauses(young=0.05, full=0.1),
    DebugFacts: hostfacts.debug(deterministic=None),
    ClearingFacts: hostfacts.clearing(kept=1, cleared=20),
    ZeroingFacts: hostfacts.zeroing(0.1),
    RetainedFacts: hostfacts.retained(graphs=4, steps=20),
    ValidationFacts: hostfacts.validation(seconds=1.2),
    BetweenFacts: hostfacts.between(0.01),
    NestFacts: NestFacts((facts.line(0.01, 30),)),
    OrphanFacts: OrphanFacts(1, 100, 0.01, 0.0, None),
    PaddingFacts: loadfacts.padding(beyond=0.0, within=0.15),
    BatchFacts: loadfacts.batch(
        loadfacts.cost(Stage.DECODING, 0.6, kind="image", library="PIL"),
        loadfacts.cost(Stage.READING, 0.2, kind="table"),
        loadfacts.cost(Stage.COLLATING, 0.2),
    ),
    MemoryFacts: loadfacts.memory(),
    ThreadWork: loadfacts.threads(running=0.1, held_up=0.02),
    CopyLines: loadfacts.copied(in_loop=0.02, in_batch=0.5),
    StorageFacts: loadfacts.storage("network", "nfs4"),
    DiskFacts: loadfacts.disk(),
    NetworkFacts: loadfacts.network(),
    WorkerMemory: loadfacts.growth(last=205e6, late=1e3),
    OptimizerFacts: builtfacts.optimizers(builtfacts.optimizer(way="fused")),
    ModelFacts: builtfacts.model(),
    RepeatFacts: builtfacts.repeats(0.0),
    BiasFacts: builtfacts.biases(0.01),
    PrecisionFacts: builtfacts.precision("bfloat16"),
    ParallelFacts: builtfacts.parallel(),
    SizeFacts: builtfacts.sizes(),
    GpuFacts: builtfacts.gpu(),
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
def test_its_heading_uses_the_words_of_the_catalogue(tip):
    heading = tip.heading
    assert heading.applies
    assert set(heading.applies) <= set(catalogue.APPLIES)
    assert heading.saves
    assert set(heading.saves) <= set(catalogue.SAVES)
    assert set(heading.rivals) <= {other.id for other in TIPS} - {tip.id}


def test_no_tip_is_there_and_planned():
    assert not set(catalogue.planned()) & {tip.id for tip in TIPS}


@each
def test_it_has_tests(tip):
    assert (Path(__file__).parent / "tips" / f"test_{tip.id.replace('-', '_')}.py").is_file()


@each
def test_it_is_silent_on_a_healthy_run(tip):
    assert tip.judge(**{name: HEALTHY[kind] for name, kind in tip.needs.items()}) is None


MS = st.floats(0, 1e4)
SHARE = st.floats(0, 1)
CODE = st.sampled_from(["total += loss", "losses.append(loss)", "history.push()", "for x in (", ""])
AT = Location("train.py", 9, "main", "work()")


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
        StackFacts: facts.stacks(*lines),
        EvalFacts: facts.evals(seconds=draw(MS), grad=draw(MS)),
        SaveFacts: facts.saves(
            count=draw(st.integers(0, 99)), each=draw(MS), between=draw(st.floats(0.01, 1e6))
        ),
    }


@st.composite
def beside(draw):
    """Facts of what goes on between the steps."""
    often = st.floats(0.001, 1e6)
    names = draw(st.sets(st.sampled_from(["anomaly", "blocking", "deterministic", "profiler", "sync"])))
    checks = [facts.line(draw(SHARE), 3) for _ in range(draw(st.integers(0, 3)))]
    return {
        PauseFacts: hostfacts.pauses(draw(MS), draw(MS), draw(often), draw(st.none() | st.just(AT))),
        DebugFacts: hostfacts.debug(*checks, busy=draw(st.none() | SHARE), **dict.fromkeys(names, AT)),
        ClearingFacts: hostfacts.clearing(draw(st.integers(0, 99)), draw(st.integers(0, 1))),
        ZeroingFacts: hostfacts.zeroing(draw(MS)),
        BetweenFacts: hostfacts.between(draw(SHARE), draw(CODE), draw(st.integers(30, 31)), 99),
        NestFacts: NestFacts((facts.line(draw(SHARE), 30, text=draw(CODE)),)),
        OrphanFacts: OrphanFacts(9, 900, draw(SHARE), draw(SHARE), draw(st.none() | st.just(AT))),
        RetainedFacts: hostfacts.retained(
            draw(st.integers(0, 64)),
            draw(often),
            draw(st.none() | st.floats(-1e9, 1e9)),
            draw(SHARE),
            draw(CODE),
        ),
        ValidationFacts: hostfacts.validation(
            draw(MS), draw(st.integers(0, 9999)), draw(st.floats(1, 1e6)), draw(MS), text=draw(CODE)
        ),
    }


@st.composite
def loading(draw):
    """Facts of what goes on inside loaders."""
    kinds = st.sampled_from(["image", "audio", "table", "lock", "thread", "copy", "file", ""])
    shares = [draw(SHARE) for _ in range(draw(st.integers(0, 4)))]
    total = max(1.0, sum(shares))
    amount = st.none() | st.integers(0, 10**12)
    return {
        BatchFacts: loadfacts.batch(
            *(
                loadfacts.cost(draw(st.sampled_from(Stage)), each / total, kind=draw(kinds))
                for each in shares
            ),
            ms=draw(MS),
            connecting=draw(SHARE),
            locked=(facts.line(draw(SHARE), 9),),
        ),
        MemoryFacts: loadfacts.memory(
            shm_bytes=draw(amount), shm_free_bytes=draw(amount), available_bytes=draw(amount)
        ),
        ThreadWork: loadfacts.threads(
            draw(st.floats(0, 64)), draw(st.none() | SHARE), draw(st.integers(0, 999)), draw(SHARE)
        ),
        CopyLines: loadfacts.copied(draw(SHARE), draw(SHARE)),
        StorageFacts: loadfacts.storage(draw(st.sampled_from(["network", "rotational", "solid", "unknown"]))),
        DiskFacts: loadfacts.disk(draw(MS)),
        NetworkFacts: loadfacts.network(
            draw(MS),
            draw(st.none() | st.floats(0.01, 400)),
            draw(MS),
            draw(st.booleans()),
            draw(st.none() | MS),
            draw(st.none() | SHARE),
        ),
        WorkerMemory: loadfacts.growth(draw(MS) * 1e6, draw(MS) * 1e6, draw(MS), draw(MS) * 1e3),
        PaddingFacts: loadfacts.padding(draw(SHARE) / 2, draw(SHARE) / 2, at=draw(st.none() | st.just(AT))),
    }


@st.composite
def built(draw):
    """Facts of what the script built."""
    count = st.integers(0, 10**9)
    some = st.floats(0, 99)
    return {
        OptimizerFacts: builtfacts.optimizers(
            *(
                builtfacts.optimizer(
                    draw(st.sampled_from(["SGD", "Adam", "LBFGS"])),
                    draw(st.sampled_from(["fused", "foreach", "for-loop", None])),
                    tensors=draw(count),
                    elements=draw(count),
                    device=draw(st.sampled_from(["cpu", "cuda"])),
                )
                for _ in range(draw(st.integers(1, 3)))
            )
        ),
        ModelFacts: builtfacts.model(draw(SHARE), draw(SHARE), parameters=draw(count)),
        RepeatFacts: builtfacts.repeats(draw(SHARE), draw(SHARE), draw(st.booleans())),
        BiasFacts: builtfacts.biases(draw(MS), draw(st.integers(1, 9))),
        PrecisionFacts: builtfacts.precision(draw(st.none() | st.just("float16")), None, draw(st.booleans())),
        ParallelFacts: builtfacts.parallel(
            wrapper=draw(st.sampled_from(["DistributedDataParallel", "DataParallel", None])),
            devices=draw(st.integers(0, 16)),
            device_ids=draw(st.integers(0, 16)),
            device=draw(st.sampled_from(["cpu", "cuda"])),
            world=draw(st.integers(1, 512)),
            synced=draw(some),
            exposed_s=draw(st.none() | some),
            find_unused=draw(st.booleans()),
            search_s=draw(some),
        ),
        SizeFacts: builtfacts.sizes(draw(SHARE), draw(some)),
        GpuFacts: builtfacts.gpu(draw(st.none() | SHARE)),
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
            work=tuple(
                ranktraces.worked(
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
        AttentionFacts: facts.attention(
            *(
                ranktraces.attention(draw(MS), draw(MS), draw(st.booleans()))
                for _ in range(draw(st.integers(0, 2)))
            )
        ),
        MatrixFacts: facts.matrices(
            ranktraces.matrix(7, 8, 9, draw(MS) + 0.01, draw(dtypes) or "float16"), share=draw(SHARE)
        ),
        CopyFacts: facts.copies(
            ranktraces.copy("HtoD", draw(memory), draw(MS) + 0.01, draw(counts), draw(size)),
            share=shares["exposed_copy"],
            sites=tuple(
                ranktraces.site(
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
            detours=tuple(
                ranktraces.detour(draw(MS), draw(MS), draw(MS), draw(st.booleans()), draw(counts))
                for _ in range(draw(st.integers(0, 2)))
            ),
        ),
        WaitFacts: facts.waits(
            *(
                ranktraces.wait(
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
        Launches: ranktraces.launches(draw(counts), draw(MS), draw(MS)),
        Peak: ranktraces.V100,
        CommFacts: facts.comm(shares["exposed_comm"], draw(SHARE)),
        RanksFacts: facts.ranks(
            waiting=draw(SHARE),
            caused=draw(SHARE),
            last=draw(st.integers(0, 9)),
            matched=9,
            excess=draw(st.floats(-1e4, 1e4)),
        ),
    }


OTHERS = (traced(), beside(), loading(), built())


@each
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_it_never_raises_and_its_change_is_in_order(tip, data):
    patient = data.draw(patients())
    for groups in OTHERS:  # only those that are asked for: drawing all of them takes minutes
        if not set(tip.needs.values()) <= set(patient):
            patient = data.draw(groups) | patient
    needed = {name: patient[kind] for name, kind in tip.needs.items()}
    if any(isinstance(value, str) for value in needed.values()):
        return
    advice = tip.judge(**needed)
    if advice is None:
        return
    assert isinstance(advice, Advice)
    assert advice.because
    if advice.tweak is not None:  # one that exists, with a value that it takes
        flags.read(advice.tweak.split(), TWEAKS)
    change = advice.change or Change()
    for share in (change.step, change.batch, change.starts, change.moved):
        assert -1e9 < share.low <= share.likely <= share.high <= 1 + 1e-9
    gain = gain_of(patient[StepModel] if isinstance(patient[StepModel], StepModel) else None, [change])
    assert 0 < gain.low <= gain.likely <= gain.high < float("inf")
    assert all(
        0 <= float(share) <= 100 for because in advice.because for share in re.findall(r"([\d.]+)%", because)
    )
