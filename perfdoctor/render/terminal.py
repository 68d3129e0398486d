"""Draws a page for a terminal: folded to its width, in colours where it has them, nothing interpreted."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from functools import singledispatch

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perfdoctor.render import page as blocks
from perfdoctor.render.folded_code import SHELL, folded
from perfdoctor.render.page import Words, spans
from perfdoctor.render.text import count, escape_control, percent

WIDEST = 100  # columns; longer lines are hard to read, however wide the terminal
NARROWEST = 40
INDENT = 2
LEAST_WIDE = 14  # columns in which a name can be told from most others
LONGEST_NAME = 45  # columns of a file name that still leave room for the source beside it
ROOM = 60  # columns below which levels and what they come to have a line each
APART = "  "


def columns(width: int) -> int:
    """How wide a page is on a terminal of `width` columns."""
    return min(max(width, NARROWEST), WIDEST)


def draw(page: blocks.Page, width: int = 80, colour: bool = False) -> str:
    """The page as text, at most `width` columns wide."""
    wide = columns(width)
    parts = [
        part
        for section in page.sections
        for part in ("", Padding(_group(section, wide - 2 * INDENT), (0, INDENT)))
    ]
    return _printed([*parts, ""], wide, colour)


def _printed(parts: Iterable[RenderableType], width: int, colour: bool) -> str:
    """The parts one below the other, without spaces at the ends of lines."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},
    )
    for part in parts:
        console.print(part)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().split("\n")[:-1])


def _group(section: Iterable[blocks.Block], room: int) -> Group:
    return Group(*(_drawn(block, room) for block in section))


def _text(words: Words, cut: bool = False) -> Text:
    """The words with their styles, control characters written out; cut where the line ends, or folded."""
    parts = [(escape_control(span.text), _style(span)) for span in spans(words)]
    overflow = "ellipsis" if cut else "fold"
    return Text.assemble(*parts, no_wrap=cut, overflow=overflow)  # type: ignore[arg-type]


def _style(span: blocks.Span) -> str:
    colour = f"black on {span.colour}" if span.filled else span.colour
    return " ".join(filter(None, ("bold" * span.strong, "dim" * span.quiet, colour)))


@singledispatch
def _drawn(block: blocks.Block, room: int) -> RenderableType:
    """What rich draws for a block where there are `room` columns."""
    raise TypeError(f"no block of a page: {type(block).__name__}")


@_drawn.register
def _(block: blocks.Headline, room: int) -> RenderableType:
    words, aside = _text(block.words, block.cut), _text(block.aside)
    if block.gives and words.cell_len + 2 + aside.cell_len > room:
        return Group(words, aside)
    if not aside and block.number is None:
        return words
    table = _grid()
    if block.number is not None:
        table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    table.add_column(justify="right", no_wrap=True)
    number = () if block.number is None else (Text(str(block.number), style="bold"),)
    table.add_row(*number, words, aside)
    return table


@_drawn.register
def _(block: blocks.Paragraph, room: int) -> RenderableType:
    return _text(block.words, block.cut)


@_drawn.register
def _(block: blocks.Code, room: int) -> RenderableType:
    code = "\n".join(map(escape_control, block.text.strip("\n").split("\n")))
    style = "bold" if block.language == SHELL else ""

    def lines(columns: int) -> Iterator[Text]:
        """Lines that can be copied: where one is broken, the rest of a comment is a comment."""
        for line in folded(code, columns, block.language):
            yield Text(line, style=style, overflow="fold")

    return _Sized(lines)


@_drawn.register
def _(block: blocks.Bullets, room: int) -> RenderableType:
    return Group(*map(_bullet, block.entries))


def _bullet(words: Words) -> RenderableType:
    """`· text`, folded beside its dot."""
    text = _text(words)
    table = _grid(padding=1)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_row(Text("·", style=_style(spans(words)[0])), text)
    return table


@_drawn.register
def _(block: blocks.CodeLines, room: int) -> RenderableType:
    left = [_text(blocks.quiet(f"and {count(block.left_out, 'more line')}"))] if block.left_out else []
    return Group(*_lines(block), *left)


def _lines(source: blocks.CodeLines) -> Iterator[Text]:
    """`train.py:41  loader = DataLoader(...)`, a line each; a file's name stands once."""
    before = None
    for file, line, source_line in source.lines:
        name = escape_control(f"{file}:{line}")
        is_long = len(name) > LONGEST_NAME
        if file == before:
            name = f":{line}".rjust(0 if is_long else len(name))
        elif is_long and source_line:
            yield _text(blocks.Span(name, colour="cyan"))
            name = f":{line}"
        yield _text((blocks.Span(name, colour="cyan"), blocks.quiet(f"  {source_line.strip()}")), cut=True)
        before = file


@_drawn.register
def _(block: blocks.Labelled, room: int) -> RenderableType:
    table = _grid()
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for label, value in block.rows:
        table.add_row(_text(blocks.quiet(label) if isinstance(label, str) else label), _told(value, room))
    return table


def _told(value: Words | blocks.Code | blocks.Levels, room: int) -> RenderableType:
    if isinstance(value, blocks.Levels):
        return _Sized(lambda columns: [_levels(value, columns)])
    return _drawn(value, room) if isinstance(value, blocks.Code) else _text(value)


@_drawn.register
def _(block: blocks.Bars, room: int) -> RenderableType:
    """One row a part, each bar beginning where the one above ends: together they are the whole."""
    table = _grid()
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1)
    for begin, part in block.shown:
        bar = _bar(begin, part.share, part.colour)
        table.add_row(part.name, part.amount, percent(part.share), bar)
    return table


@_drawn.register
def _(block: blocks.Grid, room: int) -> RenderableType:
    block = _fitting(block.shown(room), room)
    wide = any(column.wide for column in block.columns)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, expand=wide, header_style="dim")
    for column in block.columns:
        table.add_column(
            _text(column.heading),
            ratio=1 if column.wide else None,
            justify="left" if column.left else "right",
            no_wrap=not column.fold,
            overflow="fold" if column.fold else "ellipsis",
        )
    for place, row in enumerate(block.rows):
        table.add_row(*map(_cell, row), style="bold" if place in block.marked else "")
    return table


def _fitting(grid: blocks.Grid, room: int) -> blocks.Grid:
    """The table without the columns that give way for the wide one, where there are `room` columns."""
    cells = ([row[place] for row in grid.rows] for place in range(len(grid.columns)))
    kept = dict(enumerate(map(_least, grid.columns, cells)))
    for place in reversed(range(len(grid.columns))):
        if sum(kept.values()) + len(APART) * (len(kept) - 1) <= room:
            break
        if grid.columns[place].gives:
            del kept[place]
    return grid.of(kept)


def _least(column: blocks.Column, cells: Iterable[blocks.Cell]) -> int:
    """How many columns of the page it needs: those of its longest entry, a wide one no more than some."""
    texts = [cell for cell in cells if not isinstance(cell, (blocks.Bar, blocks.Strip))]
    entries = texts if column.wide else [column.heading, *texts]
    longest = max((_text(entry).cell_len for entry in entries), default=1)
    return min(longest, LEAST_WIDE) if column.wide else longest


def _cell(cell: blocks.Cell) -> RenderableType:
    if isinstance(cell, blocks.Bar):
        return _bar(0.0, cell.share, cell.colour)
    if isinstance(cell, blocks.Strip):
        return _Sized(lambda columns: [_strip(cell, columns)])
    text = _text(cell)
    text.no_wrap = text.overflow = None
    return text


@_drawn.register
def _(block: blocks.Legend, room: int) -> RenderableType:
    return _Sized(lambda columns: _legend(block, columns))


@_drawn.register
def _(block: blocks.Indented, room: int) -> RenderableType:
    return Padding(_group(block.blocks, room - block.columns), (0, 0, 0, block.columns))


def _grid(padding: int = 2) -> Table:
    return Table.grid(padding=(0, padding, 0, 0), expand=True)


class _Sized:
    """Lines that depend on the columns that a table leaves for them."""

    def __init__(self, lines: Callable[[int], Iterable[Text]]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw them into the room there is."""
        yield from self._lines(options.max_width)


def _bar(begin: float, share: float, colour: str) -> _Sized:
    """A stretch of the line; never thinner than one cell."""

    def lines(columns: int) -> Iterator[Text]:
        first = min(round(begin * columns), columns - 1)
        last = min(max(round((begin + share) * columns), first + 1), columns)
        yield Text(" " * first) + Text("█" * (last - first), style=colour)

    return _Sized(lines)


def _strip(strip: blocks.Strip, columns: int) -> Text:
    """Letters on the colour of a bar: without colour the letters are left."""
    return Text.assemble(*((letters, f"black on {colour}") for letters, colour in strip.cells(columns)))


def _legend(legend: blocks.Legend, columns: int) -> Iterator[Text]:
    """Entries that the end of no line breaks."""
    line = Text()
    for letter, name, colour in legend.entries:
        entry = Text.assemble((letter, f"black on {colour}"), f" {name}")
        if line and line.cell_len + len(APART) + entry.cell_len > columns:
            yield line
            line = Text()
        line = line + APART + entry if line else entry
    yield line


def _levels(levels: blocks.Levels, columns: int) -> Text:
    """The signs, and in words what they come to: beside them where there is room."""
    beside = columns >= ROOM
    signs = levels.signs(columns - (len(levels.told) + len(APART)) * beside)
    return Text.assemble((signs, "blue"), APART if beside else "\n", levels.told)
