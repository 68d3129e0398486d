"""What authors of tips forget, checked for all of them at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfdoctor import catalogue
from perfdoctor.analysis.stepmodel import StepModel, build
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
from tests import facts

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


@each
@settings(deadline=None, max_examples=50)
@given(patient=patients())
def test_it_never_raises_and_its_gains_are_in_order(tip, patient):
    needed = {name: patient[kind] for name, kind in tip.needs.items()}
    if any(isinstance(value, str) for value in needed.values()):
        return
    advice = tip.judge(**needed)
    if advice is None:
        return
    assert isinstance(advice, Advice)
    assert advice.because
    assert 0 < advice.gain.low <= advice.gain.likely <= advice.gain.high < float("inf")
    assert all(
        0 <= float(share) <= 100 for because in advice.because for share in re.findall(r"([\d.]+)%", because)
    )
