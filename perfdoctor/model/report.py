"""What a renderer needs of one run, in one object."""

from __future__ import annotations

from perfdoctor.model.batch import BatchFacts
from perfdoctor.model.concluded import Diagnosis, Finding, Gain, NotJudged
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.lines import StepLines
from perfdoctor.model.measured import (
    CpuFacts,
    GpuFacts,
    LoaderFacts,
    MemoryFacts,
    OverheadFacts,
    RunFacts,
    StepFacts,
    WindowFacts,
)
from perfdoctor.model.note import Remark
from perfdoctor.model.out_of_memory import OutOfMemory
from perfdoctor.model.own_failure import OwnFailure
from perfdoctor.model.ranks import JobFacts
from perfdoctor.model.rates import TrainingRates
from perfdoctor.model.resource_use import ResourceUse


@dataclass(frozen=True)
class Report:
    """Everything a renderer needs."""

    run: RunFacts
    steps: StepFacts | None
    diagnosis: Diagnosis
    findings: tuple[Finding, ...]
    not_judged: tuple[NotJudged, ...]
    overhead: OverheadFacts | None
    notes: tuple[Remark, ...] = ()  # what a reader should know: missing files, the marker used, the mend
    loader: LoaderFacts | None = None
    cpu: CpuFacts | None = None
    gpu: GpuFacts | None = None
    memory: MemoryFacts | None = None
    window: WindowFacts | None = None
    batch: BatchFacts | None = None
    lines: StepLines | None = None
    rates: TrainingRates | None = None
    use: ResourceUse | None = None  # of the machine, between the first step and the last
    out_of_memory: OutOfMemory | None = None  # how the run ended, if it was that
    together: Gain | None = None  # what the first three findings bring in combination
    path: str = ""  # the run directory
    job: JobFacts | None = None  # all ranks, where there are several
    failures: tuple[OwnFailure, ...] = ()  # of perfdoctor itself, each told by a note
