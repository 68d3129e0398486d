"""Hand-made Reports for the renderers: one starved run, and what differs said in one line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perfdoctor.model.change import Change, Estimate
from perfdoctor.model.concluded import (
    Advice,
    Bottleneck,
    Confidence,
    Diagnosis,
    Finding,
    Gain,
    NotJudged,
    Verdict,
)
from perfdoctor.model.measured import (
    CpuFacts,
    Location,
    Marker,
    MemoryFacts,
    OverheadFacts,
    Phase,
    RunFacts,
    StepFacts,
)
from perfdoctor.model.note import Note
from perfdoctor.model.out_of_memory import HeldMemory, OutOfMemory
from perfdoctor.model.report import Report

RUN = RunFacts(
    id="20260102-030405-train",
    command=("python", "train.py", "--epochs", "3"),
    exit_code=0,
    ranks=1,
    device="cpu",
    duration_s=31.2,
    cwd="/home/ada/digits",
    python="3.11.7",
    torch="2.13.0",
)

STEPS = StepFacts(
    count=400,
    marker=Marker.UPDATE,
    mean_s=0.061,
    median_s=0.058,
    p95_s=0.080,
    seconds={
        Phase.DATA_WAIT: 0.0372,
        Phase.HOST_TO_DEVICE: 0.0,
        Phase.FORWARD: 0.0095,
        Phase.BACKWARD: 0.0103,
        Phase.GRAD_SYNC: 0.0,
        Phase.OPTIMIZER: 0.0015,
        Phase.VALIDATION: 0.0,
        Phase.CHECKPOINT: 0.0002,
        Phase.OTHER: 0.0023,
    },
    wall_s=24.4,
    startup_s=3.1,
    tail_s=0.4,
    samples_per_s=1049.0,
)

DIAGNOSIS = Diagnosis(
    verdict=Verdict.DATA,
    share=0.61,
    bound=2.56,
    confidence=Confidence.HIGH,
    because=("the model of the step meets the measured 61 ms within 4 %",),
    classes={Bottleneck.DATA: 0.61, Bottleneck.COMPUTE: 0.35, Bottleneck.HOST: 0.04},
    bounds={Bottleneck.DATA: 2.56, Bottleneck.COMPUTE: 1.5, Bottleneck.HOST: 1.04},
    model_error=0.04,
)

WORKERS = Finding(
    id="too-few-workers",
    rank=1,
    bottleneck=Bottleneck.DATA,
    title="Prepare batches in more worker processes",
    advice=Advice(
        because=(
            "61 % of each step waits for the next batch",
            "num_workers is 0; 3 of 4 cores are idle",
        ),
        change=Change(workers=3),
        at=(
            Location(
                "/home/ada/digits/train.py",
                41,
                "main",
                "loader = DataLoader(digits, batch_size=64, shuffle=True)",
            ),
        ),
        tweak="--workers 3",
        code="loader = DataLoader(digits, batch_size=64, shuffle=True,\n"
        "                    num_workers=3, persistent_workers=True)",
    ),
    gain=Gain(1.8, 2.3, 2.6),
)

DATASET = Finding(
    id="slow-dataset-code",
    rank=2,
    bottleneck=Bottleneck.DATA,
    title="Speed up the line that most of a batch's cost comes from",
    advice=Advice(
        because=("72 % of what a batch costs is spent below this line, in numpy.random.normal",),
        change=Change(batch=Estimate(0.3, 0.5, 0.6)),
        at=(Location("/home/ada/digits/data.py", 17, "__getitem__", "noisy = image + noise(image.shape)"),),
        code="draw the noise for the whole batch at once",
        same_result=False,
    ),
    gain=Gain(1.3, 1.6, 1.8),
)

STARVED = Report(
    run=RUN,
    steps=STEPS,
    diagnosis=DIAGNOSIS,
    findings=(WORKERS, DATASET),
    not_judged=(
        NotJudged("pageable-memory-copies", "there is no accelerator"),
        NotJudged("blocking-copies", "there is no accelerator"),
        NotJudged("slow-remote-reads", "no network samples"),
    ),
    overhead=OverheadFacts(
        0.00002, 0.0003, 0.01, low_seconds_per_step=0.00002, high_seconds_per_step=0.00006
    ),
    cpu=CpuFacts(usable_cores=4.0, busy_cores=1.1, main_cores=1.1, worker_cores=None),
    memory=MemoryFacts(private_bytes=400_000_000, shared_bytes=None, peak_rss_bytes=None, total_bytes=None),
    path=".perfdoctor/runs/20260102-030405-train",
)

NO_STEPS = replace(
    STARVED,
    steps=None,
    overhead=None,
    findings=(),
    diagnosis=Diagnosis(
        verdict=Verdict.INCONCLUSIVE,
        share=0.0,
        bound=1.0,
        confidence=Confidence.LOW,
        because=("nothing was trained while perfdoctor watched",),
        classes={},
        bounds={},
    ),
)

HEALTHY = replace(
    STARVED,
    findings=(),
    diagnosis=replace(
        DIAGNOSIS,
        verdict=Verdict.HEALTHY,
        share=0.93,
        bound=1.0,
        because=("no change is worth 5 %",),
        classes={Bottleneck.COMPUTE: 0.93, Bottleneck.DATA: 0.05, Bottleneck.HOST: 0.02},
    ),
)


def ended(**how: Any) -> Report:
    """The starved run with another ending."""
    return replace(STARVED, run=replace(RUN, **how))


OUT_OF_MEMORY = replace(
    STARVED,
    out_of_memory=OutOfMemory(
        device="cuda:0",
        step=13,
        asked_bytes=2_000_000_000,
        total_bytes=80_000_000_000,
        held=(
            HeldMemory("parameters", 4_000_000_000),
            HeldMemory("activations and all other tensors", 70_000_000_000),
        ),
        at=Location("/home/me/train.py", 50, "main", "loss.backward()"),
        remedies=(Note("memory-fits-batch", {"batch": 128, "fits": 96, "times": 2}),),
    ),
)
