"""The report of a run as the verbs show it: judged, and kept in the run directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfdoctor.model.report import Report
    from perfdoctor.reporting import Illustrated


def judge(
    path: Path,
    others: Sequence[Path] | None = None,
    *,
    leading_only: bool = False,
    before_measuring: Callable[[str], None] | None = None,
) -> Report:
    """The report of a run, as `reporting.judge` makes it, written into its run directory as well."""
    from perfdoctor import reporting
    from perfdoctor.render.documents import report as document

    report = reporting.judge(path, others, leading_only=leading_only, before_measuring=before_measuring)
    reporting.keep(report, document.document(report))
    return report


def judge_over_time(
    path: Path,
    others: Sequence[Path] | None = None,
    *,
    leading_only: bool = False,
    before_measuring: Callable[[str], None] | None = None,
    against: Path | None = None,
) -> Illustrated:
    """The same, with what the HTML report shows beside it."""
    from perfdoctor import reporting
    from perfdoctor.render.documents import report as document

    judged = reporting.judge_over_time(
        path, others, leading_only=leading_only, before_measuring=before_measuring, against=against
    )
    reporting.keep(judged.report, document.document(judged.report))
    return judged
