"""Trials of the run's command as rows: what each change was predicted to bring, and what it brought."""

from __future__ import annotations

import os
from collections.abc import Sequence

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.trial import Trial, VariantResult
from perfdoctor.render import text
from perfdoctor.render.html import charts
from perfdoctor.render.html.charts import GainBar
from perfdoctor.render.pages import trial_words

TRIALS = 8  # the newest


@dataclass(frozen=True)
class TrialRow:
    """One change that was tried."""

    trial: str  # its id
    name: str
    told: str  # the verdict
    step: str  # before and after
    predicted: GainBar | None
    measured: GainBar | None
    predicted_told: str


@dataclass(frozen=True)
class TrialTable:
    """The rows, and the ends of the axis that their bars share."""

    rows: tuple[TrialRow, ...]
    ends: tuple[str, str]


def trial_rows(trials: Sequence[Trial]) -> TrialTable | None:
    """The changes that the newest trials measured; None without any."""
    found = [(trial, verdict) for trial in trials[:TRIALS] for verdict in trial.verdicts]
    if not found:
        return None
    gains = [
        gain for _, verdict in found for gain in (verdict.predicted, verdict.speedup) if gain is not None
    ]
    ends = charts.gain_ends(gains)
    rows = tuple(_row(trial, verdict, ends) for trial, verdict in found)
    return TrialTable(rows, (f"{ends[0]:.3g}×", f"{ends[1]:.3g}×"))


def _row(trial: Trial, verdict: VariantResult, ends: tuple[float, float]) -> TrialRow:
    before_s, after_s = trial.measured.step_s, verdict.measured.step_s
    both = before_s is not None and after_s is not None
    return TrialRow(
        os.path.basename(trial.path),
        verdict.variant.name,
        trial_words.told(verdict),
        f"{text.seconds(before_s or 0)} → {text.seconds(after_s or 0)}" if both else "",
        charts.gain_bar(verdict.predicted, ends) if verdict.predicted is not None else None,
        charts.gain_bar(verdict.speedup, ends) if verdict.speedup is not None else None,
        trial_words.ratio(verdict.predicted) if verdict.predicted is not None else "",
    )
