"""What a watched run tells before anything is tried: predictions, and how many steps its script takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from perfdoctor import reporting
from perfdoctor.facts.gather import Facts
from perfdoctor.model.concluded import Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.report import Report
from perfdoctor.model.trial import Trial, Variant, VariantResult
from perfdoctor.runs import directory
from perfdoctor.trials.settings import predicted_gain
from perfdoctor.wire.names import CONFIG


@dataclass(frozen=True)
class BaselineRun:
    """A run of the same command, as the report has it."""

    facts: Facts
    report: Report
    longest_steps: int | None  # that the script takes by itself; None: it was not let, or did not end well

    def predict(self, variant: Variant) -> Gain | None:
        """The speedup that a variant should bring, or None where the run does not tell."""
        return predicted_gain.predict(variant, self.facts, self.report)

    def with_models(self, trial: Trial) -> Trial:
        """The trial with what its predictions were before their ranges were widened."""
        return replace(trial, verdicts=tuple(map(self._with_model, trial.verdicts)))

    def _with_model(self, result: VariantResult) -> VariantResult:
        if result.predicted is None or result.over:
            return result  # on top of others a gain is a quotient, of which the model tells no range
        return replace(result, modelled=predicted_gain.modelled(result.variant, self.facts, self.report))


def read(run: Path) -> BaselineRun:
    """What the run at `run` tells."""
    report, facts = reporting.examine(run, others=())
    return BaselineRun(facts, report, _longest(run, report))


def _longest(run: Path, report: Report) -> int | None:
    bounds = directory.read_json(run / CONFIG) or {}
    cut = bounds.get("max_steps") is not None or bounds.get("max_seconds") is not None
    if cut or report.run.outcome != "ok" or report.steps is None:
        return None
    return report.steps.count
