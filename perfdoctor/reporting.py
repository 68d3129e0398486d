"""From the run directory to the report: everything is read first, then judged. All verbs go through here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfdoctor.model.dataclass import dataclass

if TYPE_CHECKING:
    from perfdoctor.diagnosis.trace_report import TraceReport
    from perfdoctor.facts.device.profiler_windows import MeasuredWindows
    from perfdoctor.facts.gather import Facts
    from perfdoctor.facts.user_source.parse import LineReader
    from perfdoctor.model.flame import RunDifference
    from perfdoctor.model.measured import Location
    from perfdoctor.model.note import Remark
    from perfdoctor.model.ranks import JobFacts, WaitsOverTime
    from perfdoctor.model.report import Report
    from perfdoctor.model.timeline import Excerpt, Timeline
    from perfdoctor.runs.directory import Json
    from perfdoctor.runs.job import Job
    from perfdoctor.runs.types import RunRecords

    Excerpts = Mapping[tuple[str, int], Excerpt]  # by file and line

RANGES_SCHEMA = "perfdoctor.ranges/1"
AROUND = 3  # source lines above and below one that a finding names


@dataclass(frozen=True)
class Evidence:
    """All that was read of a run, before anything is concluded from it."""

    records: RunRecords
    windows: MeasuredWindows
    job: JobFacts | None  # None of one rank alone, and of a part of a job
    notes: tuple[Remark, ...]  # what reading them met
    waits: WaitsOverTime | None = None  # who waits for whom, where ranks can be compared


@dataclass(frozen=True)
class Illustrated:
    """A report with what a page of pictures needs beside it."""

    report: Report
    timeline: Timeline
    excerpts: Excerpts  # the source around the lines that findings name
    window: TraceReport | None  # what the profiler's window that disturbs least tells


def judge(
    path: Path,
    others: Sequence[Path] | None = None,
    *,
    leading_only: bool = False,
    before_measuring: Callable[[str], None] | None = None,
) -> Report:
    """The report of the run directory at `path`, from its raw files.

    `others`: the other parts of the same job; None stands for those that lie beside the run.
    `leading_only`: a part is judged alone where another one, with the lowest rank, tells of all.
    `before_measuring`: measure how this machine shares its cores, which the step model needs, where that is
    not known yet. It is called first, with the reason why that takes a moment. A run that is judged with it
    has just ended on this machine: what its own trials ask of ranges is noted with the run as well.
    """
    return examine(path, others, leading_only=leading_only, before_measuring=before_measuring)[0]


def judge_over_time(
    path: Path,
    others: Sequence[Path] | None = None,
    *,
    leading_only: bool = False,
    before_measuring: Callable[[str], None] | None = None,
    against: Path | None = None,
) -> Illustrated:
    """The report as `judge` makes it, and what a page of pictures shows beside it.

    `against`: an earlier run, from which this one's stack samples are told apart.
    """
    from perfdoctor.diagnosis import trace_report
    from perfdoctor.facts.device.profiler_windows import plainest
    from perfdoctor.facts.flames import flames, thread_uses
    from perfdoctor.facts.host.training_thread import TrainingThreadFacts
    from perfdoctor.facts.steps.rollout_share import share_of
    from perfdoctor.facts.timeline import timeline
    from perfdoctor.facts.user_source.parse import Sources
    from perfdoctor.facts.waterfall import device_waterfall
    from perfdoctor.model.measured import StepFacts

    report, facts, evidence, source = _examine(path, others, leading_only, before_measuring)
    records, sources = evidence.records, Sources(source)
    over_time = timeline(records, share_of(report.notes))
    rank = over_time.steps.rank if over_time.steps is not None else None
    window, thread = plainest(evidence.windows), facts.get(TrainingThreadFacts)
    seconds = step.seconds if (step := facts.get(StepFacts)) is not None else {}
    over_time = replace(
        over_time,
        flames=flames(records, rank, sources, seconds),
        threads=thread_uses(records, rank, sources, seconds),
        on_core=thread.on_core if thread is not None else None,
        without_core=thread.without_core if thread is not None else None,
        waits=evidence.waits,
        difference=_difference(against, facts, records) if against is not None else None,
        device_waterfall=device_waterfall(window) if window is not None else None,
    )
    return Illustrated(
        report,
        over_time,
        _excerpts(report, source),
        trace_report.report([window]) if window is not None else None,
    )


def examine(
    path: Path,
    others: Sequence[Path] | None = None,
    *,
    leading_only: bool = False,
    before_measuring: Callable[[str], None] | None = None,
) -> tuple[Report, Facts]:
    """The report as `judge` makes it, and the facts behind it, which tell what tweaks would bring."""
    return _examine(path, others, leading_only, before_measuring)[:2]


def _examine(
    path: Path,
    others: Sequence[Path] | None,
    leading_only: bool,
    before_measuring: Callable[[str], None] | None,
) -> tuple[Report, Facts, Evidence, LineReader]:
    from perfdoctor.diagnosis.report import report
    from perfdoctor.facts.gather import gather
    from perfdoctor.facts.user_source.parse import Sources
    from perfdoctor.runs import job as jobs
    from perfdoctor.runs.source_lines import SourceLines

    job = jobs.of(path, leading_only) if others is None else jobs.join([path, *others])
    evidence = _read(job, before_measuring)
    # The one window to the user's files: whatever is shown of their source comes through it.
    source = SourceLines.of(evidence.records)
    facts = gather(evidence.records, source, evidence.windows, evidence.job)
    notes = (*evidence.notes, *source.notes())
    judged = report(facts, source, str(evidence.records.path), notes, evidence.job)
    if before_measuring is not None:
        sources = Sources(source)
        shown = (replace(at, line=line) for at in _lines(judged) for line in sources.lines_of(at))
        source.keep(evidence.records.path, shown)
    return judged, facts, evidence, source


def _lines(part: object) -> Iterator[Location]:
    """The lines that a report, or a part of it, shows."""
    from perfdoctor.model.measured import Location

    if isinstance(part, Location):
        yield part
    elif is_dataclass(part):
        for each in fields(part):
            yield from _lines(getattr(part, each.name))
    elif isinstance(part, (tuple, Mapping)):
        for inner in part.values() if isinstance(part, Mapping) else part:
            yield from _lines(inner)


def _difference(before: Path, facts: Facts, records: RunRecords) -> RunDifference:
    """What a run does longer or shorter than the one that came before."""
    from perfdoctor.facts.flame_difference import ComparedRun, run_difference
    from perfdoctor.model.measured import StepFacts

    _, earlier, evidence, _ = _examine(before, None, False, None)
    return run_difference(
        ComparedRun(evidence.records, earlier.get(StepFacts)), ComparedRun(records, facts.get(StepFacts))
    )


def _excerpts(report: Report, source: LineReader) -> Excerpts:
    """The lines around those that findings name, where the file still has them; secrets are left out."""
    from perfdoctor.model.timeline import Excerpt
    from perfdoctor.redaction import redact

    excerpts = {}
    for at in (at for finding in report.findings for at in finding.advice.at):
        if at.text and (source(at.file, at.line) or "").strip() == at.text.strip():
            first = max(1, at.line - AROUND)
            read = (source(at.file, line) for line in range(first, at.line + AROUND + 1))
            lines = tuple(redact.source("\n".join(line for line in read if line is not None)).split("\n"))
            excerpts[at.file, at.line] = Excerpt(first, lines)
    return excerpts


def keep(report: Report, document: Mapping[str, Any]) -> None:
    """Write the report's document into its run directory; one that may not be written to stays as it is."""
    from perfdoctor.runs import directory

    with suppress(OSError):  # a run kept by somebody else is read all the same
        directory.write_json(Path(report.path) / directory.REPORT, document)


def _read(job: Job, before_measuring: Callable[[str], None] | None) -> Evidence:
    """All that the run directories of a job hold."""
    from perfdoctor.runs import windows
    from perfdoctor.trace.measure import files

    records = job.shown()
    if before_measuring is not None and records.sharing is None:
        from perfdoctor.watch.machine import contention

        records = replace(records, sharing=contention.note(records, before_measuring))
    if before_measuring is not None and records.ranges is None:
        records = replace(records, ranges=_note_ranges(records.path))
    measured, notes = files.measured_windows(windows.of_lowest_rank(records.path, records.ranks))
    facts, waits, job_notes = _compare(job, records)
    return Evidence(records, measured, facts, (*notes, *job_notes), waits)


def _note_ranges(path: Path) -> Json | None:
    """The ranges that this machine's trials ask for, left beside the run: whoever judges it finds the same.

    None, and nothing is left, where there are too few trials yet, or no room.
    """
    from perfdoctor.diagnosis import history as fits
    from perfdoctor.runs import directory
    from perfdoctor.watch.machine import history

    try:
        changes, _ = history.read()
        fitted = fits.fitted(changes)
        if not fitted:
            return None
        by_device = {
            device: {kind.value: asdict(by) for kind, by in table.items()} for device, table in fitted.items()
        }
        document = {"schema": RANGES_SCHEMA, "fitted": by_device}
        directory.write_json(path / directory.RANGES, document)
    except OSError:  # what cannot be kept would not be found again
        return None
    return document


def _compare(
    job: Job, records: RunRecords
) -> tuple[JobFacts | None, WaitsOverTime | None, tuple[Remark, ...]]:
    """What all ranks show together; of one rank alone, and of a part of a job, only the notes."""
    if job.world < 2 or job.part:
        return None, None, tuple(note for note in job.notes if note not in records.problems)
    from perfdoctor.facts.ranks.job import RankComparison
    from perfdoctor.facts.user_source.parse import Sources
    from perfdoctor.runs.source_lines import SourceLines

    comparison = RankComparison(job.world, Sources(SourceLines.of(records)))
    whole = job.read(comparison.add, known=records.problems)
    facts = comparison.facts(whole)
    return (None, None, whole.notes) if facts is None else (_with_link(facts), comparison.waits, ())


def _with_link(job: JobFacts) -> JobFacts:
    """The same with what the link between its nodes can do, where that was measured."""
    from perfdoctor.watch.machine import link as net

    sync = job.gradient_sync
    link = net.latest(job.nodes) if sync is not None else None
    if sync is None or link is None:
        return job
    return replace(job, gradient_sync=replace(sync, link_bytes_per_s=link.link_bytes_per_s))
