"""What stands on a page, as typed blocks: made of a result once, and drawn for a terminal or as Markdown.

Nothing here is escaped or folded: whoever draws a page does so for everything that stands on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from statistics import fmean

from perfdoctor.model.dataclass import dataclass

SIGNS = "▁▂▃▄▅▆▇█"  # of levels, lowest first


@dataclass(frozen=True)
class Span:
    """A piece of text and how it is set. `code`: to be typed, or read in a file."""

    text: str
    strong: bool = False
    quiet: bool = False
    code: bool = False
    filled: bool = False  # set on its colour, as letters of a strip are
    colour: str = ""  # "green": good news, "yellow": what costs time, "red": bad news, "blue", "cyan", ...


Words = str | Span | tuple[str | Span, ...]


def spans(words: Words) -> tuple[Span, ...]:
    """The pieces of a text."""
    pieces = words if isinstance(words, tuple) else (words,)
    return tuple(Span(piece) if isinstance(piece, str) else piece for piece in pieces)


def plain(words: Words) -> str:
    """A text without how it is set."""
    return "".join(span.text for span in spans(words))


def strong(text: str, colour: str = "") -> Span:
    """Text that is seen first."""
    return Span(text, strong=True, colour=colour)


def quiet(text: str) -> Span:
    """Text that may be skipped."""
    return Span(text, quiet=True)


def code(text: str) -> Span:
    """Text that is typed."""
    return Span(text, strong=True, code=True)


@dataclass(frozen=True)
class Headline:
    """A line that names what comes below, and what stands at its right end.

    `level`: 1 the page, 2 its verdict, 3 a part of it, 4 an entry of a part, 5 a line of an entry. A `cut`
    heading stays on one line; one that `gives` puts `aside` below it where there is no room for both.
    """

    words: Words
    aside: Words = ""
    level: int = 3
    number: int | None = None
    cut: bool = False
    gives: bool = False


@dataclass(frozen=True)
class Paragraph:
    """A sentence or more; a `cut` one stays on one line."""

    words: Words
    cut: bool = False


@dataclass(frozen=True)
class Bullets:
    """Sentences that stand one below the other."""

    entries: tuple[Words, ...]


@dataclass(frozen=True)
class CodeLines:
    """Lines of the user's files: (file, line, its text). Of those `left_out` only the number is known."""

    lines: tuple[tuple[str, int, str], ...]
    left_out: int = 0


@dataclass(frozen=True)
class Code:
    """Lines to be copied as they are."""

    text: str
    language: str = "python"


@dataclass(frozen=True)
class Levels:
    """Shares (0..1) over time; one of `full` is the highest that is drawn. `told`: the same in words."""

    shares: tuple[float, ...]
    full: float
    told: str

    def signs(self, most: int) -> str:
        """One for each share, or for each mean of several where there are more than `most`."""
        count = min(len(self.shares), most)
        bounds = [round(sign * len(self.shares) / count) for sign in range(count + 1)]
        means = [fmean(self.shares[first:last]) for first, last in pairwise(bounds)]
        full = max(self.full, *means)
        return "".join(SIGNS[min(int(mean / full * len(SIGNS)), len(SIGNS) - 1)] for mean in means)


@dataclass(frozen=True)
class Labelled:
    """What there is to say, each with a word for what it is about; none: it belongs to the line above."""

    rows: tuple[tuple[Words, Words | Code | Levels], ...]


@dataclass(frozen=True)
class BarPart:
    """A part of a whole: its name, its amount in words, its share (0..1)."""

    name: str
    amount: str
    share: float
    colour: str


@dataclass(frozen=True)
class Bars:
    """The parts of a whole, each drawn where the one above ends. Those below `least` are left out."""

    parts: tuple[BarPart, ...]
    least: float = 0.0

    @property
    def shown(self) -> list[tuple[float, BarPart]]:
        """The parts that are drawn, each with the share at which it begins."""
        begins = accumulate((part.share for part in self.parts), initial=0.0)
        together = zip(begins, self.parts, strict=False)
        return [(begin, part) for begin, part in together if part.share > 0 and part.share >= self.least]


@dataclass(frozen=True)
class Bar:
    """A share (0..1) of the width of a table's column."""

    share: float
    colour: str


@dataclass(frozen=True)
class Strip:
    """A row of letters: (letter, colour, share of the column's width)."""

    parts: tuple[tuple[str, str, float], ...]

    def cells(self, columns: int) -> Iterator[tuple[str, str]]:
        """The letters of each part and their colour, where the column is so wide."""
        ends = [round(end * columns) for end in accumulate((part[2] for part in self.parts), initial=0.0)]
        for (letter, colour, _), (begin, end) in zip(self.parts, pairwise(ends), strict=True):
            yield letter * (end - begin), colour


@dataclass(frozen=True)
class Legend:
    """What letters stand for: (letter, name, colour)."""

    entries: tuple[tuple[str, str, str], ...]


Cell = Words | Bar | Strip


@dataclass(frozen=True)
class Column:
    """A column of a table. A `wide` one takes the room that the others leave.

    It is shown where the page has at least `room` columns, and not as many as `until`. One that `gives` is
    left out where too little would be left of the wide one, the last of them first.
    """

    heading: Words = ""
    left: bool = False
    wide: bool = False
    fold: bool = False
    gives: bool = False
    room: int = 0
    until: int | None = None

    def is_shown(self, columns: int) -> bool:
        """Whether it is, on a page of so many columns."""
        return self.room <= columns and (self.until is None or columns < self.until)


@dataclass(frozen=True)
class Grid:
    """Rows below headings; those in `marked` are seen first."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marked: frozenset[int] = frozenset()

    def shown(self, columns: int) -> Grid:
        """The table on a page of so many columns."""
        return self.of(place for place, column in enumerate(self.columns) if column.is_shown(columns))

    def of(self, places: Iterable[int]) -> Grid:
        """The table of these columns alone."""
        kept = tuple(places)
        rows = tuple(tuple(row[place] for place in kept) for row in self.rows)
        return Grid(tuple(self.columns[place] for place in kept), rows, self.marked)


@dataclass(frozen=True)
class Indented:
    """Blocks that belong to the line above them."""

    blocks: tuple[Block, ...]
    columns: int = 3


Block = Headline | Paragraph | Bullets | CodeLines | Code | Labelled | Bars | Grid | Legend | Indented
Section = Sequence[Block]


@dataclass(frozen=True)
class Page:
    """Sections one below the other, with room between them."""

    sections: tuple[tuple[Block, ...], ...]


def page(sections: Iterable[Section]) -> Page:
    """The page with these sections; those without a block are left out."""
    return Page(tuple(tuple(section) for section in sections if section))


def bullets(entries: Iterable[Words], quietly: bool = False, colour: str = "") -> Bullets:
    """Sentences one below the other, all set alike."""
    return Bullets(tuple(Span(plain(entry), quiet=quietly, colour=colour) for entry in entries))


def to_type(what: str, command: str) -> list[Block]:
    """A quiet line, and below it the command that does this, with all the room that there is."""
    return [Paragraph(quiet(f"{what}:")), Indented((Code(command, "shell"),), columns=2)]


def listed(heading: str, entries: Iterable[str], quietly: bool = False) -> list[Block]:
    """A heading, and sentences below it."""
    return [Headline(Span(heading, strong=True, quiet=quietly)), bullets(entries, quietly)]


def table(heading: str, columns: Sequence[str], rows: Iterable[tuple[Cell, ...]]) -> Grid:
    """A table with a name, whose first column takes the room that figures leave; the first of these stays."""
    named = Column(strong(heading), left=True, wide=True)
    figures = (Column(column, gives=place > 0) for place, column in enumerate(columns))
    return Grid((named, *figures), tuple(rows))
