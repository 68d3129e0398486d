"""The costliest lines of the user's code, as a table."""

from __future__ import annotations

from collections.abc import Iterator

from perfdoctor.model.lines import LineSeconds, StepLines, WaitPart
from perfdoctor.model.measured import StepFacts
from perfdoctor.render import page as blocks
from perfdoctor.render import text
from perfdoctor.render.page import Block, Column, Grid, Headline, Paragraph, Span

LEAST = 0.01  # of the step: cheaper lines are no news
UNSEEN = 0.05  # of the step: less is no news
LONGEST_NAME = 28  # columns of a file name that leave room for the source beside it

COLUMNS = (
    Column("each step"),
    Column(),
    Column("phase", left=True, gives=True),
    Column("line (library code it calls included)", left=True, wide=True),
)


def costly(lines: StepLines) -> list[LineSeconds]:
    """Those that are worth showing, costliest first."""
    return [line for line in lines.lines if line.share >= LEAST]


def section(lines: StepLines, steps: StepFacts, cwd: str, shown: int) -> Iterator[Block]:
    """The `shown` costliest lines, and how much of the step no sample reached."""
    first = costly(lines)[:shown]
    if not first:
        return
    yield Headline(blocks.strong("The costliest lines"))
    places = [(line.at.file, line.at.line) for line in first]
    again = (place in places[:index] for index, place in enumerate(places))
    yield Grid(COLUMNS, tuple(_row(line, cwd, above) for line, above in zip(first, again, strict=True)))
    unseen = lines.unseen / steps.mean_s if steps.mean_s else 0.0
    if unseen >= UNSEEN:
        yield Paragraph(blocks.quiet(f"not seen by any stack sample: {text.percent(unseen)} of the step"))


def _row(line: LineSeconds, cwd: str, shown_above: bool) -> tuple[blocks.Cell, ...]:
    """A line with its source; where a row above shows it already, with what it runs instead."""
    place = Span(_name(line, cwd), colour="cyan", code=True)
    source = (line.at.text or "").strip()
    if shown_above and line.runs:
        source = f"runs {', '.join(line.runs)}"
    return (
        text.seconds(line.self_s),
        text.percent(line.share),
        phase(line),
        (place, "  ", Span(source, quiet=True, code=True)) if source else place,
    )


def phase(line: LineSeconds) -> str:
    """The phase; of a wait for a batch, what it waits for."""
    if line.wait is None:
        return line.phase.value.replace("_", " ")
    return f"wait: {'worker transfer' if line.wait is WaitPart.TRANSFER else line.wait.value}"


def _name(line: LineSeconds, cwd: str) -> str:
    """`train.py:41`, without the first folders where it is long."""
    place = text.place(line.at, cwd)
    while len(place) > LONGEST_NAME and "/" in place.removeprefix("…/"):
        place = "…/" + place.removeprefix("…/").partition("/")[2]
    return place
