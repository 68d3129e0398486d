"""Pure functions from what was recorded to what is reported: RunRecords -> Facts -> Diagnosis -> Report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfdoctor import catalogue
from perfdoctor.analysis.diagnosis import blame, conclude
from perfdoctor.analysis.facts import Facts, gather
from perfdoctor.analysis.findings import judge
from perfdoctor.analysis.source import Source
from perfdoctor.analysis.windows import Windows
from perfdoctor.batch import BatchFacts
from perfdoctor.job import JobFacts
from perfdoctor.model import (
    CpuFacts,
    Finding,
    GpuFacts,
    LoaderFacts,
    MemoryFacts,
    OverheadFacts,
    Report,
    StepFacts,
    WindowFacts,
)
from perfdoctor.recorded import RunRecords

__all__ = ["examine", "report"]


def report(
    records: RunRecords,
    source: Source,
    windows: Windows | None = None,
    notes: Sequence[str] = (),
    job: JobFacts | None = None,
) -> Report:
    """Everything a renderer needs. `source` gives a line of a file, or None past its end.

    `windows`: the lowest rank's windows of torch.profiler, by kind; `notes`: what reading them met; `job`:
    what all ranks do, of which `records` holds one.
    """
    return examine(records, source, windows, notes, job)[0]


def examine(
    records: RunRecords,
    source: Source,
    windows: Windows | None = None,
    notes: Sequence[str] = (),
    job: JobFacts | None = None,
) -> tuple[Report, Facts]:
    """The report as `report` makes it, and the facts behind it, which tell what tweaks would bring."""
    facts = gather(records, source, windows or {}, job)
    blamed = blame(facts)
    judged = judge(catalogue.tips(), facts, blamed)
    found = Report(
        run=facts.run,
        steps=facts.get(StepFacts),
        diagnosis=conclude(facts, blamed, judged.findings),
        findings=tuple(_with_text(finding, source) for finding in judged.findings),
        not_judged=judged.not_judged,
        overhead=facts.get(OverheadFacts),
        notes=(*facts.notes, *notes, *judged.notes),
        loader=facts.get(LoaderFacts),
        cpu=facts.get(CpuFacts),
        gpu=facts.get(GpuFacts),
        memory=facts.get(MemoryFacts),
        window=facts.get(WindowFacts),
        batch=facts.get(BatchFacts),
        together=judged.together,
        path=str(records.path),
        job=facts.get(JobFacts) or job,
    )
    return found, facts


def _with_text(finding: Finding, source: Source) -> Finding:
    """The finding with the source line at each of its places."""
    places = []
    for at in finding.advice.at:
        text = at.text if at.text is not None else source(at.file, at.line)
        places.append(replace(at, text=text.strip() if text is not None else None))
    return replace(finding, advice=replace(finding.advice, at=tuple(places)))
