"""A Report as a page for people: the verdict, the step, what to change, and what it cost to know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perfdoctor.model import (
    Advice,
    Diagnosis,
    Finding,
    Location,
    NotJudged,
    Phase,
    Report,
    StepFacts,
    Verdict,
)
from perfdoctor.render import words
from perfdoctor.render.page import draw
from perfdoctor.render.words import harmless

WIDEST = 100  # columns; longer lines are hard to read, however wide the terminal
NARROWEST = 40
INDENT = 2
PLACES = 3  # source lines shown for one finding
LONGEST_NAME = 45  # columns of a file name that still leave room for the source beside it

QUIET = "dim"
COLOURS = {
    Phase.DATA_WAIT: "yellow",
    Phase.HOST_TO_DEVICE: "magenta",
    Phase.FORWARD: "green",
    Phase.BACKWARD: "green",
    Phase.GRAD_SYNC: "blue",
    Phase.OPTIMIZER: "green",
    Phase.VALIDATION: "cyan",
    Phase.CHECKPOINT: "red",
    Phase.OTHER: "red",
}

IF_FREE = {
    Verdict.DATA: "If batches were always ready",
    Verdict.TRANSFER: "If copies took no time",
    Verdict.COMPUTE: "If the avoidable part of it took no time",
    Verdict.NETWORK: "If the network took no time",
    Verdict.HOST: "If that Python took no time",
}


def page(report: Report, width: int = 80, colour: bool = False) -> str:
    """The whole page as text, at most `width` columns wide."""
    columns = min(max(width, NARROWEST), WIDEST)
    spaced = [
        part for block in _blocks(report, columns - 2 * INDENT) for part in ("", Padding(block, (0, INDENT)))
    ]
    return draw([*spaced, ""], columns, colour)


def _blocks(report: Report, columns: int) -> Iterator[RenderableType]:
    yield _title(report, columns)
    yield _verdict(report.diagnosis)
    if report.steps is not None:
        yield _step(report.steps)
    if report.findings:
        yield Text("What to change, best first", style="bold")
        for finding in report.findings:
            yield _finding(finding, report.run.cwd)
    elif report.steps is not None and report.diagnosis.verdict in IF_FREE:
        yield Text("No tip fits this run: the phases above say where to look.", style="bold")
    if report.notes:
        yield _list("Good to know", report.notes)
    if report.not_judged and report.steps is not None:  # without a step nothing is judged: said above
        yield _list("Not judged", _grouped(report.not_judged), quiet=True)
    yield _footer(report)


def _title(report: Report, columns: int) -> RenderableType:
    run = report.run
    steps = words.count(report.steps.count, "step") if report.steps else "no steps"
    ranks = f"{run.ranks} ranks" if run.ranks > 1 else ""
    facts = [words.ending(run), steps, words.duration(run.duration_s), harmless(run.device), ranks]
    name = _one_line(Text.assemble(("perfdoctor  ", "bold"), harmless(words.script(run))))
    told = Text(words.joined(facts), style=QUIET)
    if name.cell_len + 2 + told.cell_len > columns:
        return Group(name, told)
    row = _two_columns()
    row.add_row(name, told)
    return row


def _verdict(diagnosis: Diagnosis) -> RenderableType:
    colour = {Verdict.HEALTHY: "green", Verdict.INCONCLUSIVE: "blue"}.get(diagnosis.verdict, "yellow")
    known = diagnosis.verdict is not Verdict.INCONCLUSIVE
    heading = _two_columns()
    heading.add_row(
        Text(words.headline(diagnosis), style=f"bold {colour}"),
        Text(f"confidence: {diagnosis.confidence.value}" if known else "", style=QUIET),
    )
    lines: list[RenderableType] = [heading]
    if diagnosis.verdict in IF_FREE:
        ceiling = f"{IF_FREE[diagnosis.verdict]}: {words.times(diagnosis.ceiling_speedup)} as fast"
        lines.append(Text(f"{ceiling}, and no more."))
    lines += [_bullet(reason, QUIET) for reason in diagnosis.because]
    return Group(*lines)


def _step(steps: StepFacts) -> RenderableType:
    rate = f"{words.figures(1 / steps.mean_s)} steps/s" if steps.mean_s else ""
    if steps.samples_per_s:
        rate = f"{words.figures(steps.samples_per_s)} samples/s"
    spread = f"  median {words.seconds(steps.median_s)}, p95 {words.seconds(steps.p95_s)}"
    heading = _two_columns()
    heading.add_row(
        Text.assemble(("One step: ", "bold"), (words.seconds(steps.mean_s), "bold"), (spread, QUIET)),
        Text(rate, style=QUIET),
    )
    return Group(heading, _bars(steps))


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
            table.add_row(name, value, words.percent(share), Bar(before, before + share, COLOURS[phase]))
        before += share
    return table


class Bar:
    """A stretch of the line from `begin` to `end`, shares of its width; never thinner than one cell."""

    def __init__(self, begin: float, end: float, colour: str) -> None:
        self._begin = begin
        self._end = end
        self._colour = colour

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the stretch into the width that the table leaves for it."""
        cells = options.max_width
        first = min(round(self._begin * cells), cells - 1)
        last = min(max(round(self._end * cells), first + 1), cells)
        yield Text(" " * first) + Text("█" * (last - first), style=self._colour)


def _finding(finding: Finding, cwd: str) -> RenderableType:
    advice = finding.advice
    heading = Table.grid(padding=(0, 2, 0, 0), expand=True)
    heading.add_column(no_wrap=True)
    heading.add_column(ratio=1)
    heading.add_column(justify="right", no_wrap=True)
    heading.add_row(
        Text(str(finding.rank), style="bold"),
        Text(harmless(finding.title), style="bold"),
        Text(words.gain(advice.gain), style="bold green"),
    )
    body: list[RenderableType] = [*_places(advice.at, cwd), *(_bullet(reason) for reason in advice.because)]
    body += _ways(advice)
    return Group(heading, Padding(Group(*body), (0, 0, 0, 3)))


def _places(places: Sequence[Location], cwd: str) -> Iterator[RenderableType]:
    """`train.py:41  loader = DataLoader(...)`, a line each; a file's name stands once."""
    before = None
    for at in places[:PLACES]:
        name, source = harmless(words.place(at, cwd)), harmless((at.text or "").strip())
        if at.file == before:
            name = f":{at.line}".rjust(len(name) if len(name) <= LONGEST_NAME else 0)
        elif len(name) > LONGEST_NAME and source:
            yield Text(name, style="cyan")
            name = f":{at.line}"
        yield _one_line(Text.assemble((name, "cyan"), ("  " + source, QUIET)))
        before = at.file
    if len(places) > PLACES:
        yield Text(f"and {words.count(len(places) - PLACES, 'more line')}", style=QUIET)


def _one_line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _ways(advice: Advice) -> Iterator[RenderableType]:
    """What to type to try it, and the change by hand."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True, style=QUIET)
    table.add_column(ratio=1, overflow="fold")
    if advice.tweak:
        table.add_row("try", Text(f"perfdoctor try {harmless(advice.tweak)}", style="bold"))
    if advice.code:
        lines = advice.code.strip("\n").split("\n")
        table.add_row("by hand", Text("\n".join(map(harmless, lines))))
    if not advice.same_result:
        table.add_row("mind", Text("this can change what the training learns: compare the loss"))
    if table.row_count:
        yield table


def _list(heading: str, entries: Sequence[str], quiet: bool = False) -> RenderableType:
    style = QUIET if quiet else ""
    return Group(Text(heading, style=f"bold {style}".strip()), *(_bullet(entry, style) for entry in entries))


def _bullet(text: str, style: str = "") -> RenderableType:
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(no_wrap=True, style=style)
    table.add_column(ratio=1, style=style, overflow="fold")
    table.add_row("·", Text(harmless(text)))
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
    return Text("\n".join(lines), style=QUIET, overflow="fold")


def _two_columns() -> Table:
    """A row with one thing on the left and one on the right, the left giving way."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(ratio=1)
    table.add_column(justify="right", no_wrap=True)
    return table
