"""A Report as the public JSON document `perfdoctor.report/1`, described by docs/report.schema.json.

Fields are added, never renamed. What was not measured is null or absent, never zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import orjson

from perfdoctor.batch import BatchFacts
from perfdoctor.job import ExchangeFacts, JobFacts, RankFacts
from perfdoctor.model import Diagnosis, Finding, Location, NotJudged, Report, RunFacts, StepFacts
from perfdoctor.render import words

SCHEMA = "perfdoctor.report/1"
BATCH_LINES = 3  # of each stage, costliest first
TOO_LARGE = 2**63  # whole numbers from here on do not fit into 64 bits

Json = dict[str, Any]


def dumps(report: Report) -> bytes:
    """The document as indented UTF-8 text that ends with a newline."""
    return text(document(report))


def text(value: Json) -> bytes:
    """A document as indented UTF-8 text that ends with a newline."""
    return orjson.dumps(
        value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    )


def document(report: Report) -> Json:
    """The document as plain dictionaries and lists."""
    groups = {name: getattr(report, name) for name in ("loader", "cpu", "gpu", "memory", "window")}
    fields = {
        "schema": SCHEMA,
        "run": _run(report.run) | {"path": report.path},
        "steps": _steps(report.steps) if report.steps else None,
        **judgement(report.diagnosis, report.findings, report.not_judged, report.run.cwd),
        "together": asdict(report.together) if report.together else None,
        "overhead": asdict(report.overhead) if report.overhead else None,
        "notes": list(report.notes),
        **{name: asdict(group) if group else None for name, group in groups.items()},
        "batch": _batch(report.batch, report.run.cwd) if report.batch else None,
        "ranks": _ranks(report.job, report.run.cwd) if report.job else None,
    }
    return {name: _within_range(value) for name, value in fields.items()}


def judgement(
    diagnosis: Diagnosis, findings: Sequence[Finding], not_judged: Sequence[NotJudged], cwd: str
) -> Json:
    """What was concluded: the fields that every document about training has."""
    return {
        "bottleneck": _bottleneck(diagnosis),
        "classes": {name.value: share for name, share in diagnosis.classes.items()},
        "ceilings": {name.value: speedup for name, speedup in diagnosis.ceilings.items()},
        "findings": [_finding(finding, cwd) for finding in findings],
        "not_judged": [asdict(entry) for entry in not_judged],
    }


def _within_range(value: Any) -> Any:
    """`value` without whole numbers that JSON readers cannot hold; only a damaged file yields them."""
    if isinstance(value, dict):
        return {name: _within_range(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_within_range(inner) for inner in value]
    return None if type(value) is int and abs(value) >= TOO_LARGE else value


def _run(run: RunFacts) -> Json:
    return asdict(run) | {"command": list(run.command)}


def _steps(steps: StepFacts) -> Json:
    flat = {key: value for key, value in asdict(steps).items() if key not in ("seconds", *_STEP_TIMES)}
    return flat | {
        "marker": steps.marker.name.lower(),
        "step_s": {name: getattr(steps, field) for field, name in _STEP_TIMES.items()},
        "phases": {
            phase.value: {"seconds_per_step": value_s, "share": steps.share(phase)}
            for phase, value_s in steps.seconds.items()
        },
    }


def _batch(batch: BatchFacts, cwd: str) -> Json:
    return {
        "seconds": batch.batch_s,
        "cpu_seconds": batch.cpu_s,
        "in_workers": batch.in_workers,
        "samples": batch.samples,
        "hand_over_seconds": batch.hand_over_s,
        "worker_start_s": batch.worker_start_s,
        "stages": [
            {
                "stage": cost.stage.value,
                "kind": cost.kind,
                "library": cost.library,
                "share": cost.share,
                "seconds": cost.share * batch.batch_s,
                "lines": [
                    {"at": _place(line.at, cwd), "share": line.share, "function": line.leaf}
                    for line in cost.lines[:BATCH_LINES]
                ],
            }
            for cost in batch.costs
        ],
    }


def _ranks(job: JobFacts, cwd: str) -> Json:
    late, exchange = job.late, job.exchange
    plain = ("world", "nodes", "missing", "matched", "shown", "attempt", "clock_error_s", "skew", "notes")
    return {
        **{name: getattr(job, name) for name in plain},
        "waits": {cause.value: value_s for cause, value_s in job.waits.items()},
        "scale": [asdict(point) | {"bound": point.bound.value} for point in job.scale],
        "late": asdict(late) | {"cause": late.cause.value, "phase": late.phase.value} if late else None,
        "exchange": _exchange(exchange, cwd) if exchange else None,
        "each": [_each(rank) for rank in job.ranks],
    }


def _exchange(exchange: ExchangeFacts, cwd: str) -> Json:
    names = ("calls_per_step", "bytes_per_step", "seconds_per_step")
    kinds = {name: dict(zip(names, figures, strict=True)) for name, figures in exchange.by_kind.items()}
    return asdict(exchange) | {"by_kind": kinds, "at": _place(exchange.at, cwd) if exchange.at else None}


def _each(rank: RankFacts) -> Json:
    flat = {name: value for name, value in asdict(rank).items() if name not in ("mean_s", "seconds")}
    phases = {phase.value: value_s for phase, value_s in rank.seconds.items()}
    return flat | {"step_s": rank.mean_s, "phases": phases}


_STEP_TIMES = {"mean_s": "mean", "median_s": "median", "p95_s": "p95"}


def _bottleneck(diagnosis: Diagnosis) -> Json:
    return {
        "verdict": diagnosis.verdict.value,
        "share": diagnosis.share,
        "ceiling_speedup": diagnosis.ceiling_speedup,
        "confidence": diagnosis.confidence.value,
        "because": list(diagnosis.because),
        "model_error": diagnosis.model_error,
    }


def _finding(finding: Finding, cwd: str) -> Json:
    advice = finding.advice
    return {
        "id": finding.id,
        "rank": finding.rank,
        "class": finding.bottleneck.value,
        "title": finding.title,
        "because": list(advice.because),
        "gain": asdict(finding.gain),
        "about": "time" if advice.change else "risk",
        "at": [_place(at, cwd) for at in advice.at],
        "tweak": advice.tweak,
        "same_result": advice.same_result,
        "code": advice.code,
    }


def _place(at: Location, cwd: str) -> Json:
    return asdict(at) | {"file": words.path(at.file, cwd)}
