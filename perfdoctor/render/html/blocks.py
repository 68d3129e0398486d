"""Draws the blocks of a page as HTML: what the terminal shows of a result, in a file that a browser opens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import singledispatch
from itertools import accumulate

from markupsafe import Markup

from perfdoctor.render import page as pages
from perfdoctor.render import text
from perfdoctor.render.html import document
from perfdoctor.render.page import Words, plain, spans

HEADINGS = {1: "h1", 2: "h2", 3: "h2", 4: "h3"}  # by level: the verdict is a heading like a part's
LINE = "p"  # of deeper levels
JOIN = Markup("").join


def file(page: pages.Page) -> str:
    """The page as a whole file."""
    first = next(block for section in page.sections for block in section)
    title = plain(first.words) if isinstance(first, pages.Headline) else "perfdoctor"
    sections = [JOIN(map(drawn, section)) for section in page.sections]
    return document.filled("page.html", title=title.strip(), sections=sections)


@singledispatch
def drawn(block: pages.Block) -> Markup:
    """The HTML of a block."""
    raise TypeError(f"no block of a page: {type(block).__name__}")


def _escaped(words: str) -> Markup:
    return Markup.escape(text.escape_control(words))


def _text(words: Words) -> Markup:
    return JOIN(map(_span, spans(words)))


def _span(span: pages.Span) -> Markup:
    styles = [name for name in ("quiet", "filled") if getattr(span, name)]
    if span.colour:
        styles.append(f"{'fill' if span.filled else 'ink'}-{span.colour}")
    tag = "code" if span.code or span.filled else "b" if span.strong else "span"
    body = _escaped(span.text)
    if tag == "span" and not styles:
        return body
    return Markup("<{}{}>{}</{}>").format(
        Markup(tag), Markup(' class="{}"').format(" ".join(styles)) if styles else "", body, Markup(tag)
    )


@drawn.register
def _(block: pages.Headline) -> Markup:
    number = "" if block.number is None else f"{block.number}. "
    aside = Markup(' <span class="aside">{}</span>').format(_text(block.aside)) if plain(block.aside) else ""
    tag = Markup(HEADINGS.get(block.level, LINE))
    style = Markup(' class="headline"') if block.level == 2 else ""
    return Markup("<{}{}>{}{}{}</{}>").format(tag, style, number, _text(block.words), aside, tag)


@drawn.register
def _(block: pages.Paragraph) -> Markup:
    return Markup("<p>{}</p>").format(_text(block.words))


@drawn.register
def _(block: pages.Code) -> Markup:
    lines = "\n".join(text.escape_control(line) for line in block.text.strip("\n").split("\n"))
    return _scrolled("Code", Markup("<pre><code>{}</code></pre>").format(lines))


@drawn.register
def _(block: pages.Bullets) -> Markup:
    entries = JOIN(Markup("<li>{}</li>").format(_text(entry)) for entry in block.entries)
    return Markup("<ul>{}</ul>").format(entries)


@drawn.register
def _(block: pages.CodeLines) -> Markup:
    lines = [
        Markup('<li><span class="place">{}</span> <code>{}</code></li>').format(
            _escaped(f"{file}:{line}"), _escaped(source.strip())
        )
        for file, line, source in block.lines
    ]
    if block.left_out:
        lines.append(Markup("<li>and {}</li>").format(text.count(block.left_out, "more line")))
    return Markup('<ul class="lines-of-code">{}</ul>').format(JOIN(lines))


@drawn.register
def _(block: pages.Labelled) -> Markup:
    rows = JOIN(
        Markup("<dt>{}</dt><dd>{}</dd>").format(_text(label) if plain(label) else " ", _told(value))
        for label, value in block.rows
    )
    return Markup("<dl>{}</dl>").format(rows)


def _told(value: Words | pages.Code | pages.Levels) -> Markup:
    if isinstance(value, pages.Code):
        return drawn(value)
    if isinstance(value, pages.Levels):
        return Markup("{}<br>{}").format(_levels(value), _escaped(value.told))
    return _text(value)


def _levels(levels: pages.Levels) -> Markup:
    """Shares over time as columns."""
    wide, full = 100 / max(1, len(levels.shares)), max([levels.full, *levels.shares]) or 1.0
    columns = JOIN(
        _rect("fill-blue", place * wide, wide, "", 10 * min(1.0, share / full))
        for place, share in enumerate(levels.shares)
    )
    return _picture("bar", levels.told, columns)


@drawn.register
def _(block: pages.Bars) -> Markup:
    columns = (pages.Column(left=True), pages.Column("time"), pages.Column("share"), pages.Column(wide=True))
    rows = [
        (
            _cell(part.name),
            _cell(part.amount),
            _cell(text.percent(part.share)),
            _picture(
                "bar thin",
                f"{part.name}: {text.percent(part.share)}",
                _rect(f"fill-{part.colour}", 100 * begin, 100 * part.share, part.name),
            ),
        )
        for begin, part in block.shown
    ]
    return _table(columns, rows)


@drawn.register
def _(block: pages.Grid) -> Markup:
    """The table as on the widest page."""
    block = block.shown(columns=1000)
    return _table(block.columns, [tuple(map(_cell, row)) for row in block.rows], block.marked)


def _table(
    columns: tuple[pages.Column, ...],
    rows: Iterable[tuple[Markup, ...]],
    marked: frozenset[int] = frozenset(),
) -> Markup:
    sides = [Markup("") if column.left or column.wide else Markup(' class="number"') for column in columns]
    heads = JOIN(
        Markup('<th scope="col"{}>{}</th>').format(side, _text(column.heading))
        for column, side in zip(columns, sides, strict=True)
    )
    lines = JOIN(
        Markup("<tr{}>{}</tr>").format(
            Markup(' class="marked"') if place in marked else "",
            JOIN(Markup("<td{}>{}</td>").format(side, cell) for cell, side in zip(row, sides, strict=True)),
        )
        for place, row in enumerate(rows)
    )
    name = plain(columns[0].heading) or "Figures"
    table = Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(heads, lines)
    return _scrolled(name, table)


def _cell(cell: pages.Cell) -> Markup:
    if isinstance(cell, pages.Bar):
        rect = _rect(f"fill-{cell.colour}", 0, 100 * cell.share, text.percent(cell.share))
        return _picture("bar thin", text.percent(cell.share), rect)
    if isinstance(cell, pages.Strip):
        return _picture("bar thin", "parts of a step", JOIN(_strip(cell)))
    return _text(cell)


def _strip(strip: pages.Strip) -> Iterator[Markup]:
    begins = accumulate((share for _, _, share in strip.parts), initial=0.0)
    for (letter, colour, share), begin in zip(strip.parts, begins, strict=False):
        yield _rect(f"fill-{colour}", 100 * begin, 100 * share, letter)


@drawn.register
def _(block: pages.Legend) -> Markup:
    entries = JOIN(
        Markup('<span class="key"><code class="filled fill-{}">{}</code>{}</span> ').format(
            colour, _escaped(letter), _escaped(name)
        )
        for letter, name, colour in block.entries
    )
    return Markup('<p class="legend">{}</p>').format(entries)


@drawn.register
def _(block: pages.Indented) -> Markup:
    return Markup('<div class="indented">{}</div>').format(JOIN(map(drawn, block.blocks)))


# ---------------------------------------------------------------- shapes


def _rect(style: str, left: float, width: float, name: str, height: float = 10) -> Markup:
    title = Markup("<title>{}</title>").format(_escaped(name)) if name else ""
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}">{}</rect>').format(
        style, f"{left:.2f}", f"{10 - height:.2f}", f"{max(width, 0.2):.2f}", f"{height:.2f}", title
    )


def _picture(style: str, told: str, shapes: Markup) -> Markup:
    return Markup(
        '<svg class="{}" viewBox="0 0 100 10" preserveAspectRatio="none" role="img"><title>{}</title>{}</svg>'
    ).format(style, _escaped(told), shapes)


def _scrolled(name: str, inside: Markup) -> Markup:
    """What may be wider than a phone, reached by keyboard too."""
    return Markup('<div class="scroll" role="region" aria-label="{}" tabindex="0">{}</div>').format(
        _escaped(name), inside
    )
