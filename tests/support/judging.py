"""Reports of records that tests made by hand, judged as `perfdoctor.reporting` does it, without any file."""

from __future__ import annotations

from collections.abc import Sequence

from perfdoctor.diagnosis import report as diagnosis
from perfdoctor.facts.device.profiler_windows import MeasuredWindows
from perfdoctor.facts.gather import Facts, gather
from perfdoctor.facts.user_source.parse import LineReader
from perfdoctor.model.ranks import JobFacts
from perfdoctor.model.report import Report
from perfdoctor.runs.types import RunRecords


def examine(
    records: RunRecords,
    source: LineReader,
    windows: MeasuredWindows | None = None,
    notes: Sequence[str] = (),
    job: JobFacts | None = None,
) -> tuple[Report, Facts]:
    """The report of the records, and the facts behind it."""
    facts = gather(records, source, windows or {}, job)
    return diagnosis.report(facts, source, str(records.path), notes, job), facts


def report(
    records: RunRecords,
    source: LineReader,
    windows: MeasuredWindows | None = None,
    notes: Sequence[str] = (),
    job: JobFacts | None = None,
) -> Report:
    """The report of the records."""
    return examine(records, source, windows, notes, job)[0]
