"""Facts of the step and of what surrounds it, which agree with each other."""

from __future__ import annotations

from hypothesis import strategies as st

from perfdoctor.facts.predict.step_model import StepModel, build
from perfdoctor.facts.predict.thread_team import ThreadTeam
from perfdoctor.facts.steps.events import EvalFacts, SaveFacts
from perfdoctor.model.measured import (
    CpuFacts,
    LoaderFacts,
    Location,
    Phase,
    RunFacts,
    StackFacts,
    StepFacts,
    ThreadFacts,
)
from tests.support import facts

MS = st.floats(0, 1e4)
SHARE = st.floats(0, 1)
CODE = st.sampled_from(["total += loss", "losses.append(loss)", "history.push()", "for x in (", ""])
AT = Location("train.py", 9, "main", "work()")
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
    ThreadTeam: ThreadTeam(4, 4.0, 0.4, ran=1.9, lacked=0.05, first_ran=0.9, first_lacked=0.02),
    StackFacts: facts.stacks(facts.line(0.01, kind="logging"), facts.line(0.01, kind="data")),
    EvalFacts: facts.evals(seconds=1.0),
    SaveFacts: facts.saves(each=20, between=500),
}


@st.composite
def odd(draw):
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
        ThreadTeam: ThreadTeam(
            draw(st.integers(1, 512)),
            of_cpu.usable_cores,
            draw(cores),
            *(draw(st.none() | cores) for _ in range(4)),
            teams=draw(st.integers(1, 64)),
        ),
        StackFacts: facts.stacks(*lines),
        EvalFacts: facts.evals(seconds=draw(MS), grad=draw(MS)),
        SaveFacts: facts.saves(
            count=draw(st.integers(0, 99)), each=draw(MS), between=draw(st.floats(0.01, 1e6))
        ),
    }
