"""What a watched run tells before anything is tried: predictions, and how many steps its script takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from perfdoctor import analysis, jobs, recorded, rundir
from perfdoctor.analysis import predicted
from perfdoctor.analysis.facts import Facts
from perfdoctor.analysis.job import job_facts
from perfdoctor.model import Gain, Report
from perfdoctor.sources import SourceLines
from perfdoctor.trace import windows
from perfdoctor.trial import Variant


@dataclass(frozen=True)
class Known:
    """A run of the same command, as the report has it."""

    facts: Facts
    report: Report
    longest_steps: int | None  # that the script takes by itself; None: it was not let, or did not end well

    def predict(self, variant: Variant) -> Gain | None:
        """The speedup that a variant should bring, or None where the run does not tell."""
        return predicted.predict(variant, self.facts, self.report)


def known(run: Path) -> Known:
    """What the run at `run` tells."""
    job = jobs.join([run])
    records = job.shown()
    measured, notes = windows.measured(run, records)
    report, facts = analysis.examine(records, SourceLines(), measured, notes, job_facts(job))
    return Known(facts, report, _longest(run, records, report))


def _longest(run: Path, records: recorded.RunRecords, report: Report) -> int | None:
    bounds = rundir.read_json(run / "config.json") or {}
    cut = bounds.get("max_steps") is not None or bounds.get("max_seconds") is not None
    if cut or records.run.get("outcome") != "ok" or report.steps is None:
        return None
    return report.steps.count
