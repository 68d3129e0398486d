"""A Report as a page for people: the verdict, the step, what to change, and what it cost to know."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from perfdoctor.model.batch import BatchFacts, Stage
from perfdoctor.model.concluded import Gain
from perfdoctor.model.measured import Phase, StepFacts, WindowFacts
from perfdoctor.model.report import Report
from perfdoctor.model.shown import LINES
from perfdoctor.render import page as blocks
from perfdoctor.render import text
from perfdoctor.render.notes import all_worded
from perfdoctor.render.page import BarPart, Bars, Block, Headline, Page, Paragraph, Section
from perfdoctor.render.pages import conclusions, lines, out_of_memory, ranks, rates, resource_use

OPERATORS = 3  # named on the page
LEAST_DRAWN = 0.001  # of a step: phases below it, such as a single checkpoint's, weigh nothing
MORE_LINES = 20  # that are offered where the costliest of them say nothing


def page(
    report: Report,
    name_all: bool = False,
    costly: int = LINES,
    ready: Gain | None = None,
    price_per_h: float | None = None,
    again: str = "",
    here: str = "",
) -> Page:
    """The whole page, with the `costly` costliest lines.

    With `name_all`, it has the ids of tips that could not be judged, too; `ready` is what a trial of the same
    command measured on batches that are kept in memory; `again` is what `perfdoctor try` needs beside a tweak
    to run this command again, and `here` the folder of who reads it.
    """
    return blocks.page(_sections(report, name_all, costly, ready, price_per_h, again, here))


def _sections(
    report: Report,
    name_all: bool,
    costly: int,
    ready: Gain | None,
    price_per_h: float | None,
    again: str,
    here: str,
) -> Iterator[Section]:
    yield [_title(report)]
    if report.out_of_memory is not None:
        yield list(out_of_memory.section(report.out_of_memory, report.run.cwd))
    yield conclusions.verdict(report.diagnosis, ready=ready)
    if report.job is not None:
        yield from ranks.sections(report.job, report.run.cwd)
    if report.steps is not None:
        of = f" of rank {report.job.shown}" if report.job is not None else ""
        yield [*_step(report.steps, of), *_inside(report)]
        if report.lines is not None:
            yield list(lines.section(report.lines, report.steps, report.run.cwd, costly))
    yield from _changes(report, costly, again, here)
    if report.notes:
        yield blocks.listed("Good to know", all_worded(report.notes))
    if report.not_judged and report.steps is not None:  # without a step nothing is judged: said above
        which = "" if name_all else " (perfdoctor report --all names the tips)"
        reasons = conclusions.not_judged(report.not_judged, name_all)
        yield blocks.listed(f"Not judged{which}", reasons, quietly=True)
    yield _footer(report, price_per_h, here)


def _changes(report: Report, costly: int, again: str, here: str) -> Iterator[Section]:
    """What to change; gains of several do not add. Where no tip fits, how to see more than `costly` lines."""
    if report.findings:
        yield [Headline(blocks.strong("What to change, best first"))]
        for finding in report.findings:
            yield conclusions.finding(finding, report.run.cwd, again=again)
        if report.together is not None:
            gain = blocks.strong(text.gain(report.together), "green")
            yield [Headline(blocks.strong("The first of them together (gains do not add)"), gain, level=5)]
    elif report.steps is not None and report.diagnosis.names_bottleneck:
        unknown = "No known cause fits; the phases above show where the time goes."
        section: list[Block] = [Paragraph(blocks.strong(unknown))]
        if report.lines is not None and len(lines.costly(report.lines)) > costly and report.path:
            path = shlex.quote(text.path(report.path, here))
            section += blocks.to_type("More lines", f"perfdoctor report {path} --lines {MORE_LINES}")
        yield section


def _title(report: Report) -> Block:
    run = report.run
    steps = text.count(report.steps.count, "step") if report.steps else "no steps"
    several = f"{run.ranks} ranks" if run.ranks > 1 else ""
    of_job = ranks.size(report.job) if report.job is not None else several
    facts = [text.ending(run), steps, text.duration(run.duration_s), run.device, of_job]
    name = (blocks.strong("perfdoctor  "), blocks.Span(text.script(run), code=True))
    return Headline(name, blocks.quiet(text.joined(facts)), level=1, cut=True, gives=True)


def _step(steps: StepFacts, of: str) -> Iterator[Block]:
    """How long a step is, and where its time goes."""
    rate = f"{text.figures(1 / steps.mean_s)} steps/s" if steps.mean_s else ""
    if steps.samples_per_s:
        rate = f"{text.figures(steps.samples_per_s)} samples/s"
    spread = blocks.quiet(f"  median {text.seconds(steps.median_s)}, p95 {text.seconds(steps.p95_s)}")
    yield Headline(
        (blocks.strong(f"One step{of}: {text.seconds(steps.mean_s)}"), spread), blocks.quiet(rate), level=5
    )
    yield Bars(tuple(_part(steps, phase) for phase in Phase), LEAST_DRAWN)


def _part(steps: StepFacts, phase: Phase) -> BarPart:
    amount = text.seconds(steps.seconds.get(phase, 0.0))
    return BarPart(phase.value.replace("_", " "), amount, steps.share(phase), conclusions.COLOURS[phase])


def _inside(report: Report) -> Iterator[Block]:
    """Lines below the phases: what is in `other`, rates, the costliest operators, what a batch costs."""
    if rest := conclusions.other(report.diagnosis):
        yield Paragraph(blocks.quiet(rest))
    if report.rates is not None and report.rates.is_told:
        yield Paragraph(blocks.quiet(rates.line(report.rates)), cut=True)
    if report.window is not None:
        yield Paragraph(blocks.quiet(_operators(report.window)), cut=True)
    if report.batch is not None:
        yield Paragraph(blocks.quiet(_batch(report.batch, report.run.cwd)))


def _batch(batch: BatchFacts, cwd: str) -> str:
    """What a batch costs in a line: its stages, and where the costliest of them is."""
    stages = []
    most = max(Stage, key=batch.share)
    for stage in Stage:
        share, places = batch.share(stage), batch.lines(stage)
        if share >= text.LEAST_SHOWN:
            place = f" ({text.place(places[0].at, cwd)})" if stage is most and places else ""
            stages.append(f"{stage.value} {text.percent(share)}{place}")
    where = "in a worker" if batch.in_workers else "in the training process"
    told = f"a batch: {text.seconds(batch.batch_s)} {where}: {', '.join(stages)}"
    if batch.transfer_s >= text.LEAST_SHOWN * batch.batch_s:
        told += f"; worker transfer: {text.seconds(batch.transfer_s)}"
    return told


def _operators(window: WindowFacts) -> str:
    """The costliest operators in a line."""
    shown = [
        f"{op.name.removeprefix('aten::')} {text.percent(op.share)}" for op in window.operators[:OPERATORS]
    ]
    return f"{'on the device' if window.on_device else 'in operators'}: {', '.join(shown)}"


def _footer(report: Report, price_per_h: float | None, here: str) -> list[Block]:
    said = []
    if report.use is not None:
        less = resource_use.enough(report.use)
        said.append(f"It used {resource_use.used(report.use)}.")
        if less:
            said.append(f"{less} would have been enough.")
    if price_per_h is not None:
        costs = ", ".join(resource_use.costs(report, price_per_h))
        said.append(f"At {price_per_h:,.2f} an hour: {costs}.")
    path = text.path(report.path, here)
    if report.overhead is not None:
        said.append(f"Watching cost {text.watching(report.overhead)}.")
    if report.path:
        said.append(f"Kept in {path}")
    footer: list[Block] = [Paragraph(blocks.quiet(line)) for line in said]
    if report.window is not None:
        footer += blocks.to_type("Inside the step", f"perfdoctor trace {shlex.quote(path)}")
    return footer
