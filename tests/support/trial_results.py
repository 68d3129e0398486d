"""Hand-made Trials for the renderers and the command line: one line each, what differs said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perfdoctor.model.concluded import Gain
from perfdoctor.model.measured import Location
from perfdoctor.model.trial import (
    Execution,
    ExecutionEnd,
    LossEquivalence,
    Outcome,
    Place,
    Scaled,
    Setting,
    Trial,
    Variant,
    VariantResult,
)
from perfdoctor.probe.trial.tweak import BITWISE, PATH, ROUNDING

WORKERS = Setting("workers", ("--workers", "4"), {"value": 4}, BITWISE)
AMP = Setting("amp", ("--amp", "--amp-dtype", "bf16"), {"amp_dtype": "bf16"}, ROUNDING)
BATCH = Setting("batch-size", ("--batch-size", "256"), {"value": 256}, PATH)

TRAIN = "/home/ada/digits/train.py"
APPLIED = Place("workers", "DataLoader num_workers", Location(TRAIN, 41, "main"), 0, 4)
LEFT = Place(
    "workers",
    "DataLoader",
    Location(TRAIN, 52, "main"),
    because="its IterableDataset would be read once by each worker",
)
SAME = LossEquivalence(True, 0.0, 0.0, 80, "80 losses are equal to the last bit")
OTHER = LossEquivalence(False, 0.31, 0.002, 80, "losses differ by 31%, two originals by 0.2%")


def execution(number: int = 0, step_s: float | None = 0.06, **fields: Any) -> Execution:
    """One execution of round `number`."""
    values = {
        "ending": ExecutionEnd.MEASURED,
        "steps": 60,
        "start_s": 2.0,
        "warm_up_s": 1.2,
        "warm_up_steps": 20,
        "losses": (2.3, 2.1),
        "host_bytes": 1_200_000_000,
        "ended_early": True,
        "log": f"/home/ada/digits/.perfdoctor/trials/t/{number + 1}.log",
    }
    return Execution(number, step_s=step_s, **(values | fields))


def executions(step_s: float, **fields: Any) -> tuple[Execution, ...]:
    """Three rounds that differ a little."""
    return tuple(execution(number, step_s * way, **fields) for number, way in enumerate((1.0, 1.02, 0.98)))


FASTER = VariantResult(
    Variant((WORKERS,)),
    Outcome.FASTER,
    "between 1.800 and 2.000 times as fast, over 3 rounds",
    executions(0.0315, applied=(APPLIED,), left_alone=(LEFT,), host_bytes=1_900_000_000),
    speedup=Gain(1.8, 1.9, 2.0),
    confidence=0.95,
    equivalence=SAME,
    predicted=Gain(1.7, 1.85, 2.1),
)
UNCLEAR = replace(
    FASTER,
    variant=Variant((AMP,)),
    outcome=Outcome.NO_DIFFERENCE,
    because="between 0.976 and 1.034 times as fast, over 3 rounds: rounds differ too much to tell",
    executions=executions(0.06, applied=(Place("amp", "Net in bf16", Location(TRAIN, 60)),)),
    speedup=Gain(0.976, 1.005, 1.034),
    predicted=None,
)
SLOWER = replace(UNCLEAR, outcome=Outcome.SLOWER, speedup=Gain(0.78, 0.8, 0.82))
CHANGED = replace(FASTER, variant=Variant((BATCH,)), outcome=Outcome.CHANGED, per="sample", equivalence=OTHER)
UNTOUCHED = VariantResult(
    Variant((WORKERS,)),
    Outcome.NO_EFFECT,
    "nothing to change",
    (execution(left_alone=(LEFT,)),),
)
GAVE_UP = Place(
    "accumulate",
    "optimizer.step",
    Location(TRAIN, 60, "main"),
    because="gradients are cleared without an update",
    step=12,
)
ACCUMULATE = Setting("accumulate", ("--accumulate", "4"), {"value": 4}, PATH)
WITHDRAWN = VariantResult(
    Variant((ACCUMULATE,)),
    Outcome.WITHDRAWN,
    "--accumulate withdrew after 12 steps: optimizer.step: gradients are cleared without an update",
    (execution(applied=(Place("accumulate", "optimizer.step"),), withdrawn=(GAVE_UP,)),),
)
FAILED = VariantResult(
    Variant((AMP,)),
    Outcome.FAILED,
    "RuntimeError: expected scalar type Half but found Float",
    (execution(step_s=None, ending=ExecutionEnd.FAILED, error="RuntimeError: expected scalar type Half"),),
)
NO_MEMORY = replace(FAILED, outcome=Outcome.OUT_OF_MEMORY, because="CUDA out of memory")
NOT_MEASURED = VariantResult(Variant((AMP,)), Outcome.NOT_MEASURED, "interrupted before it was measured")


def trial(*verdicts: VariantResult, **fields: Any) -> Trial:
    """A trial that came to these verdicts."""
    values = {
        "command": ("/usr/bin/python3", "train.py", "--epochs", "3"),
        "originals": executions(0.06),
        "rounds": 3,
        "steps": 60,
        "warm_up_steps": 20,
        "seconds": 247.0,
        "notes": ("files were written to a copy of the file system that is gone now",),
        "path": "/home/ada/digits/.perfdoctor/trials/20260102-030405-train",
    }
    return Trial(verdicts=verdicts, **(values | fields))


TWO = VariantResult(
    Variant(ranks=2),
    Outcome.FASTER,
    "between 1.600 and 1.800 times as fast, over 3 rounds",
    executions(0.07, ranks=2, phases={"forward": 0.06, "moving": 0.01}, cpu_s=0.13),
    speedup=Gain(1.6, 1.7, 1.8),
    confidence=0.95,
    per="sample",
)
FOUR = VariantResult(
    Variant(ranks=4),
    Outcome.FAILED,
    "RuntimeError: no port",
    (Execution(0, ExecutionEnd.FAILED, error="no port"),),
)
CURVE = (
    Scaled(1, 0.06, 533.0),
    Scaled(
        2, 0.07, 914.0, Gain(1.6, 1.7, 1.8), Gain(0.8, 0.85, 0.9), {"moving": 0.01}, "14% is moving gradients"
    ),
    Scaled(4, None, None),
)


def scaled(**fields: Any) -> Trial:
    """A scaling curve of one, two and four ranks, the last of which fail."""
    launched = {2: "torchrun --standalone --nproc-per-node 2 train.py --epochs 3"}
    curve = {"base": Variant(ranks=1), "scaling": CURVE, "cwd": "/home/ada/digits", "rank_commands": launched}
    return trial(TWO, FOUR, **(curve | fields))


ALL = (FASTER, UNCLEAR, SLOWER, CHANGED, UNTOUCHED, WITHDRAWN, FAILED, NO_MEMORY, NOT_MEASURED)
