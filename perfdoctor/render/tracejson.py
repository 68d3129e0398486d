"""A TraceReport as the public JSON document `perfdoctor.trace/1`, described by docs/trace.schema.json.

Times are microseconds. Fields are added, never renamed. What a trace cannot tell is null, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from perfdoctor.analysis.traces import TraceReport
from perfdoctor.render import json as public
from perfdoctor.trace.results import (
    ClassUse,
    CopyUse,
    IdleCause,
    KernelUse,
    MatrixUse,
    RankTrace,
    StepTrace,
    Times,
)

SCHEMA = "perfdoctor.trace/1"

Json = dict[str, Any]


def dumps(report: TraceReport) -> bytes:
    """The document as indented UTF-8 text that ends with a newline."""
    return public.text(document(report))


def document(report: TraceReport) -> Json:
    """The document as plain dictionaries and lists."""
    return {
        "schema": SCHEMA,
        "ranks": [_rank(trace) for trace in report.ranks],
        **public.judgement(report.diagnosis, report.findings, report.not_judged, ""),
        "together": asdict(report.together) if report.together is not None else None,
        "judged_rank": report.judged.rank,
        "judged_file": report.judged.file,
        "notes": list(report.notes),
    }


def _rank(trace: RankTrace) -> Json:
    return {
        "rank": trace.rank,
        "world_size": trace.world_size,
        "file": trace.file,
        "device": trace.device,
        "devices": list(trace.devices),
        "events": trace.events,
        "device_events": trace.device_events,
        **_times(trace.times),
        "idle_by_cause_us": _idle(trace.idle_us) if trace.times is not None else None,
        "streams": [asdict(stream) for stream in trace.streams] if trace.times is not None else None,
        "launches": asdict(trace.launches) if trace.launches is not None else None,
        "classes": [_class(use) for use in trace.classes],
        "kernels": [_kernel(kernel) for kernel in trace.kernels],
        "ops": [asdict(op) for op in trace.ops],
        "copies": [_copy(copy) for copy in trace.copies],
        "blocking": [asdict(call) for call in trace.blocking],
        "matrices": [_matrix(matrix) for matrix in trace.matrices],
        "peak": asdict(trace.peak) if trace.peak is not None else None,
        "roofline": [_named(asdict(roof)) | {"class": roof.kind.value} for roof in trace.roofs],
        "memory": asdict(trace.memory) if trace.memory is not None else None,
        "runtime_calls": [
            {"name": name, "count": count, "us": us} for name, (count, us) in trace.runtime_us.items()
        ],
        "dataloader_us": trace.dataloader_us,
        "operators_us": trace.operators_us,
        "dataloader_count": trace.dataloader_count,
        "sync_us": trace.sync_us,
        "steps": [_step(step, trace.times is not None) for step in trace.steps],
        "skipped": asdict(trace.skipped),
        "notes": list(trace.notes),
    }


def _times(times: Times | None) -> Json:
    names = ("span", "busy", "idle", "compute", "comm", "overlap", "exposed_comm", "copy", "copy_overlap")
    return {f"{name}_us": getattr(times, f"{name}_us", None) for name in names}


def _idle(idle_us: Mapping[IdleCause, float]) -> dict[str, float]:
    return {cause.value: idle_us.get(cause, 0.0) for cause in IdleCause}


def _step(step: StepTrace, device: bool) -> Json:
    times = _times(step.times if device else None)
    del times["span_us"]
    return {
        "name": step.name,
        "window_us": step.times.span_us,
        **times,
        "dataloader_us": step.dataloader_us,
        "operators_us": step.operators_us,
        "idle_by_cause_us": _idle(step.idle_us) if device else None,
    }


def _named(fields: Json) -> Json:
    """Fields with what is called `kind` inside called `class`."""
    return {"class" if name == "kind" else name: value for name, value in fields.items()}


def _class(use: ClassUse) -> Json:
    return _named(asdict(use)) | {"class": use.kind.value}


def _kernel(kernel: KernelUse) -> Json:
    return _named(asdict(kernel)) | {"class": kernel.kind.value}


def _copy(copy: CopyUse) -> Json:
    return asdict(copy) | {"gb_per_s": copy.gb_per_s}


def _matrix(matrix: MatrixUse) -> Json:
    return asdict(matrix) | {"flops": matrix.flops}
