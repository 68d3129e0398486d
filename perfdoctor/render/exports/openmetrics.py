"""Gauges of a run in the text format of OpenMetrics, for a collector of text files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from perfdoctor.model.report import Report
from perfdoctor.render import text

Sample = tuple[dict[str, str], float]  # labels, value


def openmetrics(report: Report, run: str) -> str:
    """The whole file; a gauge that has no value is left out."""
    lines = []
    for name, unit, told, samples in _gauges(report):
        known = [sample for sample in samples if math.isfinite(sample[1])]
        if known:
            lines += [
                f"# TYPE {name} gauge",
                *([f"# UNIT {name} {unit}"] if unit else []),
                f"# HELP {name} {told}",
            ]
            lines += [f"{name}{_labels({'run': run} | labels)} {value:.9g}" for labels, value in known]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _gauges(report: Report) -> Iterator[tuple[str, str, str, Sequence[Sample]]]:
    """(name, unit, help, samples) of each gauge."""
    steps = report.steps
    if steps is not None:
        phases = [({"phase": phase.value}, value_s) for phase, value_s in steps.seconds.items()]
        yield "perfdoctor_step_seconds", "seconds", "Mean step.", [({}, steps.mean_s)]
        yield "perfdoctor_step_phase_seconds", "seconds", "Mean step by phase.", phases
        yield "perfdoctor_steps", "", "Steps that were measured.", [({}, float(steps.count))]
        if steps.samples_per_s is not None:
            yield "perfdoctor_samples_per_second", "", "Throughput.", [({}, steps.samples_per_s)]
    shares = [({"class": name.value}, share) for name, share in report.diagnosis.classes.items()]
    verdict: list[Sample] = [({"verdict": report.diagnosis.verdict.value}, 1.0)]
    gains: list[Sample] = [
        ({"finding": found.id, "bound": bound}, getattr(found.gain, bound))
        for found in report.findings
        if found.advice.change
        for bound in ("low", "likely", "high")
    ]
    yield "perfdoctor_verdict", "", "The verdict; its value is always 1.", verdict
    yield "perfdoctor_class_ratio", "ratio", "Share of wall time by what the step waits for.", shares
    yield "perfdoctor_gain_ratio", "ratio", "Predicted speedup of each finding.", gains


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return text.escape_control(value).replace("\\", r"\\").replace('"', r"\"")
