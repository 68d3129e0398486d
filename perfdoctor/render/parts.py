"""The pieces that pages for people are made of: verdict, findings, bars, lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perfdoctor.model import Advice, Diagnosis, Finding, Location, Phase, Verdict
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


def columns(width: int) -> int:
    """How wide a page is on a terminal of `width` columns."""
    return min(max(width, NARROWEST), WIDEST)


def spaced(blocks: Iterable[RenderableType], width: int, colour: bool) -> str:
    """The blocks as a page of `width` columns, a line between them and a margin at each side."""
    parts = [part for block in blocks for part in ("", Padding(block, (0, INDENT)))]
    return draw([*parts, ""], width, colour)


def verdict(diagnosis: Diagnosis, subject: str = "Training") -> RenderableType:
    """The verdict on `subject`, what it would bring to be free of it, and what speaks for it."""
    colour = {Verdict.HEALTHY: "green", Verdict.INCONCLUSIVE: "blue"}.get(diagnosis.verdict, "yellow")
    known = diagnosis.verdict is not Verdict.INCONCLUSIVE
    heading = two_columns()
    heading.add_row(
        Text(words.headline(diagnosis).replace("Training", subject, 1), style=f"bold {colour}"),
        Text(f"confidence: {diagnosis.confidence.value}" if known else "", style=QUIET),
    )
    lines: list[RenderableType] = [heading]
    if diagnosis.verdict in IF_FREE:
        ceiling = f"{IF_FREE[diagnosis.verdict]}: {words.times(diagnosis.ceiling_speedup)} as fast"
        lines.append(Text(f"{ceiling}, and no more."))
    lines += [bullet(reason, QUIET) for reason in diagnosis.because]
    return Group(*lines)


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


def finding(found: Finding, cwd: str, brief: bool = False) -> RenderableType:
    """A finding: title, gain, lines, evidence, what to type; in brief, the evidence's first line."""
    advice = found.advice
    heading = Table.grid(padding=(0, 2, 0, 0), expand=True)
    heading.add_column(no_wrap=True)
    heading.add_column(ratio=1)
    heading.add_column(justify="right", no_wrap=True)
    heading.add_row(
        Text(str(found.rank), style="bold"),
        Text(harmless(found.title), style="bold"),
        Text(words.gain(found.gain), style="bold green")
        if advice.change
        else Text("risk", style="bold yellow"),
    )
    if brief:
        return Group(heading, Padding(bullet(advice.because[0]), (0, 0, 0, 3)))
    body: list[RenderableType] = [*_places(advice.at, cwd), *(bullet(reason) for reason in advice.because)]
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
        yield one_line(Text.assemble((name, "cyan"), ("  " + source, QUIET)))
        before = at.file
    if len(places) > PLACES:
        yield Text(f"and {words.count(len(places) - PLACES, 'more line')}", style=QUIET)


def one_line(text: Text) -> Text:
    """`text`, cut where the line ends."""
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


def listed(heading: str, entries: Sequence[str], quiet: bool = False) -> RenderableType:
    """A heading and a line or more for each entry."""
    style = QUIET if quiet else ""
    return Group(Text(heading, style=f"bold {style}".strip()), *(bullet(entry, style) for entry in entries))


def bullet(text: str, style: str = "") -> RenderableType:
    """`· text`, folded beside its dot."""
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(no_wrap=True, style=style)
    table.add_column(ratio=1, style=style, overflow="fold")
    table.add_row("·", Text(harmless(text)))
    return table


def two_columns() -> Table:
    """A row with one thing on the left and one on the right, the left giving way."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(ratio=1)
    table.add_column(justify="right", no_wrap=True)
    return table


def table(heading: str, *columns: str) -> Table:
    """A table whose first column gives way."""
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, expand=True, header_style=QUIET)
    grid.add_column(Text(heading, style="bold"), ratio=1, no_wrap=True, overflow="ellipsis")
    for column in columns:
        grid.add_column(column, justify="right", no_wrap=True)
    return grid
