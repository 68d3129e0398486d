"""A TraceReport as the public JSON document `perfdoctor.trace/1`, described by docs/trace.schema.json.

Times are microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfdoctor.diagnosis.trace_report import TraceReport
from perfdoctor.model.dataclass import dataclass
from perfdoctor.render.documents.encoder import Document, Shape
from perfdoctor.render.documents.report import CONCLUDED, CONCLUSIONS
from perfdoctor.trace.results import (
    ClassUse,
    CopyUse,
    IdleCause,
    KernelUse,
    MatrixUse,
    RankTrace,
    Roof,
    StreamUse,
    Times,
)

TIMES = ("span", "busy", "idle", "compute", "comm", "overlap", "exposed_comm", "copy", "copy_overlap")
FLAT = " ".join(f"{name}_us=times.{name}_us" for name in TIMES)
CLASSED = Shape("* class=kind")


@dataclass(frozen=True)
class DeviceStep:
    """A step, with the times of the device if there is one."""

    name: str
    window_us: float
    times: Times | None
    dataloader_us: float
    operators_us: float | None
    idle_by_cause_us: dict[IdleCause, float] | None


@dataclass(frozen=True)
class RuntimeCall:
    """Calls of one function of the device's runtime."""

    name: str
    count: int
    us: float


def _idle(trace: RankTrace) -> dict[IdleCause, float] | None:
    return _by_cause(trace.idle_us) if trace.times is not None else None


def _by_cause(idle_us: Mapping[IdleCause, float]) -> dict[IdleCause, float]:
    return {cause: idle_us.get(cause, 0.0) for cause in IdleCause}


def _streams(trace: RankTrace) -> tuple[StreamUse, ...] | None:
    return trace.streams if trace.times is not None else None


def _steps(trace: RankTrace) -> list[DeviceStep]:
    has_device = trace.times is not None
    return [
        DeviceStep(
            step.name,
            step.times.span_us,
            step.times if has_device else None,
            step.dataloader_us,
            step.operators_us,
            _by_cause(step.idle_us) if has_device else None,
        )
        for step in trace.steps
    ]


def _runtime_calls(trace: RankTrace) -> list[RuntimeCall]:
    return [RuntimeCall(name, count, us) for name, (count, us) in trace.runtime_us.items()]


TRACE = Document(
    "perfdoctor.trace/1",
    TraceReport,
    "What `perfdoctor trace --json` prints. Times are microseconds and end in _us, bytes in bytes.",
    {
        **CONCLUSIONS,
        TraceReport: Shape(f"ranks {CONCLUDED} judged_rank=judged.rank judged_file=judged.file notes"),
        RankTrace: Shape(
            f"rank world_size file device devices events device_events {FLAT} idle_by_cause_us streams"
            " launches classes kernels ops copies blocking matrices peak roofline=roofs memory runtime_calls"
            " dataloader_us operators_us dataloader_count sync_us steps skipped notes",
            idle_by_cause_us=_idle,
            streams=_streams,
            runtime_calls=_runtime_calls,
            steps=_steps,
        ),
        DeviceStep: Shape(
            f"name window_us {FLAT.partition(' ')[2]} dataloader_us operators_us idle_by_cause_us"
        ),
        ClassUse: CLASSED,
        KernelUse: CLASSED,
        Roof: CLASSED,
        CopyUse: Shape("* gb_per_s"),
        MatrixUse: Shape("* flops"),
    },
)
document, dumps = TRACE.document, TRACE.dumps
