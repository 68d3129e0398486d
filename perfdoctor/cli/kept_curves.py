"""The newest measurement of a run's loader by itself, where `perfdoctor loader` has made one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfdoctor.model.loader_curve import LoaderCurve
    from perfdoctor.model.report import Report


def of_command(report: Report, out: str | None) -> LoaderCurve | None:
    """The curve of the run's command, measured in the run's folder and kept near the run or in `out`."""
    from perfdoctor.cli import kept_trials
    from perfdoctor.facts.data import loader_curve
    from perfdoctor.runs import directory, records
    from perfdoctor.runs.source_lines import SourceLines
    from perfdoctor.wire.names import MEASURING

    command = kept_trials.comparable_command(report.run.command)
    near = directory.beside(report.path, "loaders")
    for place in dict.fromkeys([*directory.places(out, "loaders"), *near]):
        for path, run in directory.kept(place).items():
            told = run.get("command")
            same = isinstance(told, list) and kept_trials.comparable_command(list(map(str, told))) == command
            if same and run.get("cwd") == report.run.cwd and (path / MEASURING).is_file():
                read = records.read(path)
                curve = loader_curve.curve(read, SourceLines.of(read))
                if curve.settings:
                    return curve
    return None
