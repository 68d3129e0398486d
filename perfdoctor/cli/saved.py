"""Saved runs: which ones are meant, and the Report of the job that they are parts of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perfdoctor.errors import NoSuchRun

if TYPE_CHECKING:
    from perfdoctor.job import JobFacts
    from perfdoctor.jobs import Job
    from perfdoctor.model import Report


def find(run: str | None, out: str | None) -> Path:
    """The run directory that the user means: a path, an id, or (None) the newest."""
    from perfdoctor import rundir

    places = rundir.places(out)
    if run is None:
        newest = [path for place in places for path in rundir.runs(place)[:1]]
        return newest[0] if newest else rundir.latest(places[0])
    for path in (Path(run), *(place / run for place in places)):
        if path.is_dir():
            return path
    hint = "list the runs here with: perfdoctor runs" + (f" --out {out}" if out else "")
    raise NoSuchRun(f"there is no run called {run}", hint)


def meant(names: Sequence[str], out: str | None) -> list[Path]:
    """The run directories that the user means: one, or those of a job's nodes; some may be missing."""
    if len(names) < 2:
        return [find(next(iter(names), None), out)]
    paths = []
    for name in names:
        try:
            paths.append(find(name, out))
        except NoSuchRun:
            paths.append(Path(name))  # the report of the others says so
    return paths


def judge(path: Path, tell: Callable[[str], None] | None = None, others: Sequence[Path] = ()) -> Report:
    """The Report of a run directory, computed from its raw files and kept in the report.json beside them.

    `others` are parts of the same job; without them, those that lie beside the run are found. With `tell`,
    the run has just ended: what the step model needs of this machine is measured first where it is not known
    yet, `tell` is called with the reason why that takes a moment, and only the part that leads a job tells of
    all of it.
    """
    from perfdoctor import analysis, jobs, rundir
    from perfdoctor.render import json
    from perfdoctor.sources import SourceLines
    from perfdoctor.trace import windows

    job = jobs.join([path, *others]) if others else jobs.of(path, leading=tell is not None)
    records = job.shown()
    if tell is not None and records.sharing is None:
        from perfdoctor import contention

        records = replace(records, sharing=contention.note(records, tell))
    measured, notes = windows.measured(records.path, records)
    facts = _facts(job)
    if facts is None:  # else they are among its notes
        notes += job.notes
    found = analysis.report(records, SourceLines(), measured, notes, facts)
    with suppress(OSError):  # a run kept by somebody else is read all the same
        rundir.write_json(records.path / "report.json", json.document(found))
    return found


def _facts(job: Job) -> JobFacts | None:
    """What all ranks of a job show together; None of one rank alone, and of a part of a job."""
    if job.world < 2 or job.part:
        return None
    from perfdoctor import net
    from perfdoctor.analysis.job import job_facts

    found = job_facts(job)
    link = net.latest(found.nodes) if found is not None and found.exchange is not None else None
    if found is None or found.exchange is None or link is None:
        return found
    return replace(found, exchange=replace(found.exchange, link_bytes_per_s=link.link_bytes_per_s))
