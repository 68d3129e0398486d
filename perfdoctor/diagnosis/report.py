"""Judges the facts of a run and puts together what is reported of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfdoctor.diagnosis.findings import judge
from perfdoctor.diagnosis.other_time import lines_with_waits, with_waits
from perfdoctor.diagnosis.verdict import attribute_time, conclude
from perfdoctor.facts.gather import Facts
from perfdoctor.facts.user_source.parse import LineReader
from perfdoctor.model.batch import BatchFacts
from perfdoctor.model.concluded import Finding
from perfdoctor.model.lines import StepLines
from perfdoctor.model.measured import (
    CpuFacts,
    GpuFacts,
    LoaderFacts,
    MemoryFacts,
    OverheadFacts,
    StackFacts,
    StepFacts,
    WindowFacts,
)
from perfdoctor.model.note import Note, Remark
from perfdoctor.model.out_of_memory import OutOfMemory
from perfdoctor.model.own_failure import OwnFailure
from perfdoctor.model.ranks import JobFacts
from perfdoctor.model.rates import TrainingRates
from perfdoctor.model.report import Report
from perfdoctor.model.resource_use import ResourceUse
from perfdoctor.tips import catalogue


def report(
    facts: Facts,
    source: LineReader,
    path: str = "",
    notes: Sequence[Remark] = (),
    job: JobFacts | None = None,
) -> Report:
    """Everything a renderer needs. `source` gives a line of a file, or None past its end.

    `path`: the run directory; `notes`: what reading it met; `job`: what all ranks do, where the facts do not
    tell because the shown rank made no step.
    """
    attribution, stacks = attribute_time(facts), facts.get(StackFacts)
    step, lines = facts.get(StepFacts), facts.get(StepLines)
    judged = judge(catalogue.tips(), facts, attribution)
    failures = (*facts.failures, *judged.failures)
    return Report(
        run=facts.run,
        steps=with_waits(step, stacks) if step is not None else None,
        diagnosis=conclude(facts, attribution, judged.findings),
        findings=tuple(_with_text(finding, source) for finding in judged.findings),
        not_judged=judged.not_judged,
        overhead=facts.get(OverheadFacts),
        notes=(*facts.notes, *notes, *judged.notes, *map(_told, failures)),
        failures=failures,
        loader=facts.get(LoaderFacts),
        cpu=facts.get(CpuFacts),
        gpu=facts.get(GpuFacts),
        memory=facts.get(MemoryFacts),
        window=facts.get(WindowFacts),
        batch=facts.get(BatchFacts),
        lines=lines_with_waits(lines, stacks) if lines is not None else None,
        rates=facts.get(TrainingRates),
        use=facts.get(ResourceUse),
        out_of_memory=facts.get(OutOfMemory),
        together=judged.together,
        path=path,
        job=facts.get(JobFacts) or job,
    )


def _told(failure: OwnFailure) -> Note:
    return Note("own-failure", {"feature": failure.feature, "error": failure.error})


def _with_text(finding: Finding, source: LineReader) -> Finding:
    """The finding with the source line at each of its places."""
    places = []
    for at in finding.advice.at:
        text = at.text if at.text is not None else source(at.file, at.line)
        places.append(replace(at, text=text.strip() if text is not None else None))
    return replace(finding, advice=replace(finding.advice, at=tuple(places)))
