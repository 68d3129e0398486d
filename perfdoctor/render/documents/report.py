"""A Report as the public JSON document `perfdoctor.report/1`, described by docs/report.schema.json."""

from __future__ import annotations

from perfdoctor.model.batch import BatchFacts, Stage
from perfdoctor.model.concluded import Diagnosis, Finding
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import GpuFacts, LineCost, LoaderFacts, Location, Phase, RunFacts, StepFacts
from perfdoctor.model.ranks import GradientSyncFacts, JobFacts, RankFacts, Straggler
from perfdoctor.model.report import Report
from perfdoctor.render.documents.encoder import Document, Shape, Shapes

BATCH_LINES = 3  # of each stage, costliest first

# What every document about training has of what was concluded.
CONCLUDED = (
    "bottleneck=diagnosis classes=diagnosis.classes ceilings=diagnosis.bounds findings not_judged together"
)
CONCLUSIONS: Shapes = {
    Diagnosis: Shape("verdict share ceiling_speedup=bound confidence because model_error"),
    Finding: Shape(
        "id rank class=bottleneck title because=advice.because gain about=advice.about at=advice.at"
        " tweak=advice.tweak same_result=advice.same_result code=advice.code checked=checked.label"
    ),
}


@dataclass(frozen=True)
class KeptRun(RunFacts):
    """A run and its folder."""

    path: str = ""


@dataclass(frozen=True)
class WholePath(Location):
    """A line of a file that is named in full."""


@dataclass(frozen=True)
class StepSeconds:
    """The seconds of a step."""

    mean: float
    median: float
    p95: float


@dataclass(frozen=True)
class PhaseSeconds:
    """A phase of the step."""

    seconds_per_step: float
    share: float


@dataclass(frozen=True)
class StageSeconds:
    """A stage of preparing a batch."""

    stage: Stage
    kind: str
    library: str | None
    share: float
    seconds: float
    lines: tuple[LineCost, ...]


@dataclass(frozen=True)
class CollectiveSeconds:
    """Collectives of one kind."""

    calls_per_step: float
    bytes_per_step: int
    seconds_per_step: float


def _run(report: Report) -> KeptRun:
    return KeptRun(**vars(report.run), path=report.path)


def _loader_at(loader: LoaderFacts) -> WholePath | None:
    return WholePath(**vars(loader.at)) if loader.at is not None else None


def _step_s(steps: StepFacts) -> StepSeconds:
    return StepSeconds(steps.mean_s, steps.median_s, steps.p95_s)


def _phases(steps: StepFacts) -> dict[Phase, PhaseSeconds]:
    return {phase: PhaseSeconds(value_s, steps.share(phase)) for phase, value_s in steps.seconds.items()}


def _stages(batch: BatchFacts) -> list[StageSeconds]:
    return [
        StageSeconds(
            cost.stage,
            cost.kind,
            cost.library,
            cost.share,
            cost.share * batch.batch_s,
            cost.lines[:BATCH_LINES],
        )
        for cost in batch.costs
    ]


def _by_kind(sync: GradientSyncFacts) -> dict[str, CollectiveSeconds]:
    return {name: CollectiveSeconds(*figures) for name, figures in sync.by_kind.items()}


REPORT = Document(
    "perfdoctor.report/1",
    Report,
    "What `perfdoctor report --json` prints. Seconds end in _s, bytes in _bytes.",
    {
        **CONCLUSIONS,
        Report: Shape(
            f"run steps {CONCLUDED} other=diagnosis.other overhead notes loader cpu gpu memory rates use"
            " out_of_memory window batch lines ranks=job",
            run=_run,
        ),
        StepFacts: Shape(
            "* -seconds -mean_s -median_s -p95_s crowded_s=contention_s step_s phases",
            step_s=_step_s,
            phases=_phases,
        ),
        LoaderFacts: Shape("* -beside_wait_s", at=_loader_at),
        BatchFacts: Shape(
            "seconds=batch_s cpu_seconds=cpu_s in_workers samples hand_over_seconds=transfer_s"
            " worker_start_s stages",
            stages=_stages,
        ),
        LineCost: Shape("at share function=leaf"),
        GpuFacts: Shape("* -free"),
        JobFacts: Shape(
            "world nodes missing matched shown attempt clock_error_s skew notes waits scale late=straggler"
            " exchange=gradient_sync each=ranks"
        ),
        Straggler: Shape(
            "rank node last caused behind_s cause phase excess_s why saved_s whole_node crowded more_data"
        ),
        GradientSyncFacts: Shape("* -exposed -all -each_s", by_kind=_by_kind),
        RankFacts: Shape("* -mean_s -seconds -cores step_s=mean_s phases=seconds"),
    },
    lambda report: report.run.cwd,
)
document, dumps = REPORT.document, REPORT.dumps
