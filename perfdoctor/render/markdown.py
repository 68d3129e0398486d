"""Draws a page as GitHub-flavoured Markdown, for an issue or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import singledispatch
from itertools import pairwise

from perfdoctor.render import page as blocks
from perfdoctor.render.page import Words, plain, spans
from perfdoctor.render.text import count, escape_control, percent

HEADINGS = {1: "##", 2: "###", 3: "####"}  # by level; deeper ones are bold lines
STRIP = 40  # letters of a strip, and signs of levels
SPECIAL = re.compile(r"[\\`*\[\]<>|~&$]|(?<!\w)_|_(?!\w)")
FIRST = re.compile(r"^(\s*\d*)([-+#=]+|[.)])(?=\s|$)")  # what would begin a list or a heading, or make one
REFERENCE = re.compile(r"(?<!\w)([@#])(?=\w)")  # what would call a person, or name an issue
TICKS = re.compile(r"`+")
QUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")  # code in a sentence
BAR = re.compile(r"(?<!\\)\|")  # would end the cell of a table, in code too


def draw(page: blocks.Page) -> str:
    """The page as Markdown."""
    return _together(block for section in page.sections for block in section) + "\n"


def _together(section: Iterable[blocks.Block]) -> str:
    """Blocks with a line between them, but for lists, which are one list then."""
    drawn = [text for text in map(_drawn, section) if text]
    lists = [text.startswith("- ") for text in drawn]
    between = ["\n" if before and after else "\n\n" for before, after in pairwise(lists)]
    return "".join(part for pair in zip(drawn, [*between, ""], strict=bool(drawn)) for part in pair)


def escape(text: str) -> str:
    """Text that stands in Markdown as it is."""
    literal = FIRST.sub(r"\1\\\2", SPECIAL.sub(r"\\\g<0>", escape_control(text)))
    return REFERENCE.sub(r"\1<!-- -->", literal)


def code(text: str) -> str:
    """Text in a span of code, whatever it holds."""
    written = escape_control(text).strip()
    fence = "`" * (1 + max(map(len, TICKS.findall(written)), default=0))
    pad = " " if written.startswith("`") or written.endswith("`") else ""
    return f"{fence}{pad}{written}{pad}{fence}" if written else ""


def _text(words: Words) -> str:
    return "".join(map(_span, spans(words))).strip()


def _span(span: blocks.Span) -> str:
    body = span.text.strip()
    if not body:
        return span.text
    before, after = span.text[: span.text.index(body)], span.text[span.text.index(body) + len(body) :]
    written = code(body) if span.code or span.filled else _prose(body)
    return f"{before}**{written}**{after}" if span.strong and not span.code else f"{before}{written}{after}"


def _prose(text: str) -> str:
    """A sentence, with what it quotes in backticks as spans of code."""
    parts = QUOTED.split(text)  # every second one was quoted
    return "".join(code(part) if place % 2 else escape(part) for place, part in enumerate(parts))


@singledispatch
def _drawn(block: blocks.Block) -> str:
    """The Markdown of a block."""
    raise TypeError(f"no block of a page: {type(block).__name__}")


@_drawn.register
def _(block: blocks.Headline) -> str:
    number = "" if block.number is None else f"{block.number}. "
    aside = f": {_unset(block.aside)}" if plain(block.aside) else ""
    if block.level in HEADINGS:
        own_line = f"\n\n{_unset(block.aside)}" if aside else ""
        return f"{HEADINGS[block.level]} {number}{_unset(block.words)}{own_line}"
    return f"**{number}{_unset(block.words)}**{aside}"


def _unset(words: Words) -> str:
    """The words without what makes them seen first: all of a heading is."""
    return _text(tuple(blocks.Span(span.text, code=span.code) for span in spans(words)))


@_drawn.register
def _(block: blocks.Paragraph) -> str:
    return _text(block.words)


@_drawn.register
def _(block: blocks.Code) -> str:
    lines = [escape_control(line) for line in block.text.strip("\n").split("\n")]
    longest = max((len(ticks) for line in lines for ticks in TICKS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{block.language}", *lines, fence])


@_drawn.register
def _(block: blocks.Bullets) -> str:
    return "\n".join(f"- {_text(entry)}" for entry in block.entries)


@_drawn.register
def _(block: blocks.CodeLines) -> str:
    lines = [f"{code(f'{file}:{line}')} {code(text)}".rstrip() for file, line, text in block.lines]
    more = [f"and {count(block.left_out, 'more line')}"] if block.left_out else []
    return "\\\n".join([*lines, *more])


@_drawn.register
def _(block: blocks.Labelled) -> str:
    return "\n".join(_row(label, value) for label, value in block.rows)


def _row(label: Words, value: Words | blocks.Code | blocks.Levels) -> str:
    begin = f"- {_text(label)}:" if plain(label) else "  -"
    if isinstance(value, blocks.Code):
        return "\n".join([begin, *(f"  {line}" for line in _drawn(value).split("\n"))])
    if isinstance(value, blocks.Levels):
        return f"{begin} {value.signs(STRIP)} {escape(value.told)}"
    return f"{begin} {_text(value)}"


@_drawn.register
def _(block: blocks.Bars) -> str:
    rows = tuple((part.name, part.amount, percent(part.share)) for _, part in block.shown)
    columns = (blocks.Column(left=True), blocks.Column("time"), blocks.Column("share"))
    return _drawn(blocks.Grid(columns, rows))


@_drawn.register
def _(block: blocks.Grid) -> str:
    """The table as on the widest page, without what only shows on a screen."""
    block = block.shown(columns=1000)
    kept = [
        place
        for place in range(len(block.columns))
        if not all(isinstance(row[place], blocks.Bar) for row in block.rows)
    ]
    columns = [block.columns[place] for place in kept]
    lines = [[_unset(column.heading) for column in columns]]
    lines.append([":--" if column.left or column.wide else "--:" for column in columns])
    lines += [[_cell(row[place]) for place in kept] for row in block.rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(cell: blocks.Cell) -> str:
    if isinstance(cell, blocks.Bar):
        return percent(cell.share)
    if isinstance(cell, blocks.Strip):
        return code("".join(letters for letters, _ in cell.cells(STRIP)))
    return BAR.sub(r"\\|", _text(cell))


@_drawn.register
def _(block: blocks.Legend) -> str:
    return ", ".join(f"{code(letter)} {escape(name)}" for letter, name, _ in block.entries)


@_drawn.register
def _(block: blocks.Indented) -> str:
    return _together(block.blocks)
