"""Measures how the memory of the training process grows from step to step: MemoryGrowth."""

from __future__ import annotations

from collections.abc import Sequence

from perfdoctor.facts.decode import Json, number
from perfdoctor.facts.host.resources import ENOUGH, OwnDevices, OwnSamples
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.steps.trend import slope
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.missing import Missing

SETTLING = 0.2  # of the steps: memory still grows for other reasons

Readings = list[tuple[float, float]]  # (moment in nanoseconds, bytes)


@dataclass(frozen=True)
class MemoryGrowth:
    """Bytes that each step adds once the run has settled; None where it was not measured."""

    host_bytes_per_step: float | None  # of the training process
    device_bytes_per_step: float | None  # of the accelerators that it uses


@fact
def memory_growth(samples: OwnSamples, devices: OwnDevices, span: MeasuredSpan) -> MemoryGrowth | Missing:
    """The robust slope of what the training process holds.

    Pages without a file behind them are read with every sample; private pages seldom, but everywhere.
    """
    per_ns = span.seconds * 1e9 / span.steps
    known = [_readings(samples, key) for key in ("anonymous_bytes", "private_bytes")]
    host = next((seen for each in known if (seen := _settled(each, span)) is not None), None)
    used = [
        [(number(row.get("t_ns")), number(row["memory_used_bytes"])) for row in rows if _is_read(row)]
        for rows in devices.values()
    ]
    grown = [seen for each in used if (seen := _settled(each, span)) is not None]
    if host is None and not grown:
        return Missing("the memory of the training process was sampled too rarely to see growth")
    return MemoryGrowth(
        host * per_ns if host is not None else None,
        sum(grown) * per_ns if grown else None,
    )


def _settled(readings: Readings, span: MeasuredSpan) -> float | None:
    """Bytes per nanosecond, from where the run has settled to the last step."""
    begin_ns = span.begin_ns + SETTLING * (span.end_ns - span.begin_ns)
    seen = [(t_ns - begin_ns, held) for t_ns, held in readings if begin_ns <= t_ns <= span.end_ns]
    if len(seen) < ENOUGH:
        return None
    return slope(*zip(*seen, strict=True))


def _readings(samples: Sequence[Json], key: str) -> Readings:
    return [
        (number(entry.get("t_ns")), number(proc.get(key)))
        for entry in samples
        for proc in entry.get("procs") or ()
        if proc.get("role") == "main" and proc.get(key)
    ]


def _is_read(row: Json) -> bool:
    return bool(row.get("memory_used_bytes"))
