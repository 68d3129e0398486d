"""A Trial as the public JSON document `perfdoctor.trial/1`, described by docs/trial.schema.json.

The document is also what is kept of a trial: it holds everything that the page shows.
"""

from __future__ import annotations

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.trial import SCHEMA, Execution, ExecutionSummary, Trial, VariantResult
from perfdoctor.render.documents.encoder import Document, Shape


@dataclass(frozen=True)
class Executed:
    """Executions, and what they measured together."""

    measured: ExecutionSummary
    executions: tuple[Execution, ...]


@dataclass(frozen=True)
class BothMetrics:
    """What --metric found last."""

    original: float
    variant: float


def _original(trial: Trial) -> Executed:
    return Executed(trial.measured, trial.originals)


def _tweaks(verdict: VariantResult) -> list[str]:
    return [" ".join(setting.words) for setting in verdict.variant.settings]


def _metric(verdict: VariantResult) -> BothMetrics | None:
    return BothMetrics(*verdict.metric) if verdict.metric else None


TRIAL = Document(
    SCHEMA,
    Trial,
    "What `perfdoctor try --json` prints, and trial.json in the trial's folder. Seconds, bytes.",
    {
        Trial: Shape(
            "command path rounds steps warm_up_steps seconds interrupted stopped_early original"
            " variants=verdicts kept notes cwd base_ranks=base.ranks scaling exit_code",
            original=_original,
        ),
        VariantResult: Shape(
            "tweaks ranks=variant.ranks verdict=outcome because speedup confidence over per predicted"
            " modelled loss=equivalence metric pays_off_steps settings=variant.settings measured executions",
            tweaks=_tweaks,
            metric=_metric,
        ),
    },
)
document, dumps = TRIAL.document, TRIAL.dumps
