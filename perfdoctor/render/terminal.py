"""A Report as a page for people: the verdict, the step, what to change, and what it cost to know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from perfdoctor.batch import BatchFacts, Stage
from perfdoctor.model import Gain, NotJudged, Phase, Report, StepFacts, WindowFacts
from perfdoctor.render import parts, ranks, words
from perfdoctor.render.words import harmless

OPERATORS = 3  # named on the page


def page(report: Report, width: int = 80, colour: bool = False) -> str:
    """The whole page as text, at most `width` columns wide."""
    columns = parts.columns(width)
    return parts.spaced(_blocks(report, columns - 2 * parts.INDENT), columns, colour)


def _blocks(report: Report, columns: int) -> Iterator[RenderableType]:
    yield _title(report, columns)
    yield parts.verdict(report.diagnosis)
    if report.job is not None:
        yield ranks.block(report.job, report.run.cwd)
    if report.steps is not None:
        of = f" of rank {report.job.shown}" if report.job is not None else ""
        yield Group(_step(report.steps, of), *_inside(report))
    if report.findings:
        yield Text("What to change, best first", style="bold")
        for finding in report.findings:
            yield parts.finding(finding, report.run.cwd)
        if report.together is not None:
            yield _together(report.together)
    elif report.steps is not None and report.diagnosis.verdict in parts.IF_FREE:
        yield Text("No tip fits this run: the phases above say where to look.", style="bold")
    if report.notes:
        yield parts.listed("Good to know", report.notes)
    if report.not_judged and report.steps is not None:  # without a step nothing is judged: said above
        yield parts.listed("Not judged", _grouped(report.not_judged), quiet=True)
    yield _footer(report)


def _together(gain: Gain) -> RenderableType:
    """What several findings bring at once: gains do not add."""
    row = parts.two_columns()
    row.add_row(
        Text("The first of them together (gains do not add)", style="bold"),
        Text(words.gain(gain), style="bold green"),
    )
    return row


def _title(report: Report, columns: int) -> RenderableType:
    run = report.run
    steps = words.count(report.steps.count, "step") if report.steps else "no steps"
    several = f"{run.ranks} ranks" if run.ranks > 1 else ""
    of_job = ranks.size(report.job) if report.job is not None else several
    facts = [words.ending(run), steps, words.duration(run.duration_s), harmless(run.device), of_job]
    name = parts.one_line(Text.assemble(("perfdoctor  ", "bold"), harmless(words.script(run))))
    told = Text(words.joined(facts), style=parts.QUIET)
    if name.cell_len + 2 + told.cell_len > columns:
        return Group(name, told)
    row = parts.two_columns()
    row.add_row(name, told)
    return row


def _step(steps: StepFacts, of: str) -> RenderableType:
    rate = f"{words.figures(1 / steps.mean_s)} steps/s" if steps.mean_s else ""
    if steps.samples_per_s:
        rate = f"{words.figures(steps.samples_per_s)} samples/s"
    spread = f"  median {words.seconds(steps.median_s)}, p95 {words.seconds(steps.p95_s)}"
    heading = parts.two_columns()
    heading.add_row(
        Text.assemble((f"One step{of}: {words.seconds(steps.mean_s)}", "bold"), (spread, parts.QUIET)),
        Text(rate, style=parts.QUIET),
    )
    return Group(heading, _bars(steps))


def _inside(report: Report) -> Iterator[RenderableType]:
    """Lines below the phases: the costliest operators, and what a batch costs."""
    if report.window is not None:
        yield _operators(report.window)
    if report.batch is not None:
        yield _batch(report.batch, report.run.cwd)


def _batch(batch: BatchFacts, cwd: str) -> RenderableType:
    """What a batch costs in a line: its stages, and where the costliest of them is."""
    stages = []
    most = max(Stage, key=batch.share)
    for stage in Stage:
        share, lines = batch.share(stage), batch.lines(stage)
        if share >= words.LEAST_SHOWN:
            place = f" ({harmless(words.place(lines[0].at, cwd))})" if stage is most and lines else ""
            stages.append(f"{stage.value} {words.percent(share)}{place}")
    where = "in a worker" if batch.in_workers else "in the training process"
    text = f"a batch: {words.seconds(batch.batch_s)} {where}: {', '.join(stages)}"
    if batch.hand_over_s >= words.LEAST_SHOWN * batch.batch_s:
        text += f"; handing it over: {words.seconds(batch.hand_over_s)}"
    return Text(text, style=parts.QUIET, overflow="fold")


def _operators(window: WindowFacts) -> RenderableType:
    """The costliest operators in a line."""
    shown = [
        f"{harmless(op.name).removeprefix('aten::')} {words.percent(op.share)}"
        for op in window.operators[:OPERATORS]
    ]
    where = "on the device" if window.on_device else "in operators"
    return parts.one_line(Text(f"{where}: {', '.join(shown)}", style=parts.QUIET))


def _bars(steps: StepFacts) -> Table:
    """One row a phase, each bar starting where the one above ends: together they are the step."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1)
    before = 0.0
    for phase in Phase:
        share = steps.share(phase)
        if share > 0:
            name = phase.value.replace("_", " ")
            value = words.seconds(steps.seconds[phase])
            table.add_row(
                name, value, words.percent(share), parts.Bar(before, before + share, parts.COLOURS[phase])
            )
        before += share
    return table


def _grouped(entries: Sequence[NotJudged]) -> list[str]:
    """What was not judged, a line a reason."""
    reasons: dict[str, list[str]] = {}
    for entry in entries:
        reasons.setdefault(entry.because, []).append(entry.id)
    return [f"{', '.join(ids)}: {reason}" for reason, ids in reasons.items()]


def _footer(report: Report) -> RenderableType:
    lines = []
    if report.overhead is not None:
        cost = words.seconds(report.overhead.seconds_per_step)
        lines.append(f"Watching cost {cost} a step ({words.percent(report.overhead.share)} of it).")
    if report.path:
        lines.append(f"Kept in {harmless(words.path(report.path, report.run.cwd))}")
    if report.window is not None:
        lines.append(f"Inside the step: perfdoctor trace {harmless(words.path(report.path, report.run.cwd))}")
    return Text("\n".join(lines), style=parts.QUIET, overflow="fold")
