"""Ranks as rows, slowest first, each with a strip of letters for its step; of many, spread and outliers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from perfdoctor.render import parts, words
from perfdoctor.render.words import harmless

FEW = 16  # ranks with a row each: they fit a screen; of more, percentiles are shown
NAMED = 7  # ranks that stand out, shown by name; with the median rank beside them eight rows
FAR_OUT = 3.0  # times the middle half's spread beyond it: Tukey's fence for what is "far out", not chance
SLOWER = 0.02  # of the step: a rank that is slower by less does not stand out, however even the others are
SAME = 0.01  # of the step: ranks that differ by less stand in the order of their numbers, not of chance
QUANTILES = {"p5": 0.05, "p50": 0.5, "p95": 0.95}
ROOM = 60  # columns below which figures give way to the strips, which show the same
LONGEST_NODE = 14  # columns
APART = "  "
LATE = "late"
DIFFERENT = 0.01  # of the steps: from here on it is worth a column that ranks made more or fewer


@dataclass(frozen=True)
class Kind:
    """One way to spend time, and how a strip shows it."""

    label: str
    letter: str
    colour: str
    told: bool = False  # in a column of figures beside the strips
    own: bool = True  # the rank's own doing; else it takes several, and depends on when each of them comes


WAITING = Kind("waiting", "w", "bright_black", told=True, own=False)
MOVING = Kind("moving", "m", "blue", told=True, own=False)
SYNCING = Kind("grad sync", "s", "blue", told=True, own=False)  # both, where they cannot be told apart


@dataclass(frozen=True)
class Row:
    """One rank. `seconds` are per step and add up to `step_s`, in the order of its strip."""

    name: str
    step_s: float
    seconds: Mapping[Kind, float]
    node: str = ""
    steps: int | None = None
    last: float | None = None  # share of the exchanges that it came to last
    mark: str = ""  # LATE, or another word beside the name
    remark: str = ""  # what stands in place of figures where there are none

    @property
    def own_s(self) -> float:
        """The step without exchanges: it tells ranks apart, for they wait until their steps are equal."""
        return self.step_s - sum(value_s for kind, value_s in self.seconds.items() if not kind.own)


_Line = tuple[Text, Callable[[Row], float], Callable[[float], str], float]  # label, value, its writing, least


def heading(title: str, ranks: int, left_out: str) -> Text:
    """What stands above the ranks: how many, and in which order their rows are."""
    order = ", slowest first" + (f", {left_out} left out" if left_out else "") if ranks <= FEW else ""
    return Text.assemble((title, "bold"), (order, parts.QUIET), overflow="fold")


def shown(rows: Sequence[Row], whole: str = "step") -> RenderableType:
    """Each of a few ranks, or of many the spread and who stands out; `whole`: what `step_s` is called."""
    same_s = SAME * _quantile([row.own_s for row in rows], 0.5) or 1.0
    ordered = sorted(rows, key=lambda row: (bool(row.remark), -round(row.own_s / same_s)))
    nodes = short({row.node for row in rows})
    ordered = [replace(row, node=nodes[row.node] if len(nodes) > 1 else "") for row in ordered]
    return Group(*(_each(ordered, whole) if len(rows) <= FEW else _many(ordered, whole)))


def _each(rows: Sequence[Row], whole: str) -> Iterator[RenderableType]:
    yield _Table(rows, whole)
    yield _Legend(_kinds(rows))


def _many(ordered: Sequence[Row], whole: str) -> Iterator[RenderableType]:
    measured = [row for row in ordered if not row.remark]
    if measured:
        yield _Spread(measured, whole)
        out = _outliers(measured)
        yield Text("\n" + _told_apart(out), style="bold", overflow="fold")
        yield _Table([*out[:NAMED], replace(measured[len(measured) // 2], mark="median")], whole)
    for remark, count in Counter(row.remark for row in ordered if row.remark).items():
        yield Text(f"{words.count(count, 'rank')}: {remark}", style=parts.QUIET)


def _outliers(ordered: Sequence[Row]) -> list[Row]:
    """The late rank, then whoever takes much longer than the others, slowest first."""
    own_s = [row.own_s for row in ordered]
    low_s, middle_s, high_s = (_quantile(own_s, share) for share in (0.25, 0.5, 0.75))
    fence_s = max(high_s + FAR_OUT * (high_s - low_s), middle_s * (1 + SLOWER))
    out = [row for row in ordered if row.mark or row.own_s > fence_s]
    return sorted(out, key=lambda row: not row.mark)


def _told_apart(out: Sequence[Row]) -> str:
    if not out:
        return "No rank stands out; the median rank:"
    node, count = Counter(row.node for row in out).most_common(1)[0]
    together = f", {count:,} of them on {harmless(node)}" if node and len(out) / 2 < count > 1 else ""
    slowest = f"; the {NAMED} slowest" if len(out) > NAMED else ""
    verb = "stands" if len(out) == 1 else "stand"
    return f"{words.count(len(out), 'rank')} {verb} out{together}{slowest}, and the median rank:"


class _Spread:
    """A line for the step and each part of it: percentiles over the ranks, and who is worst."""

    def __init__(self, rows: Sequence[Row], whole: str) -> None:
        self._rows = rows
        self._whole = whole

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the table; in little room there are only the median and the worst."""
        rows = self._rows
        quantiles = QUANTILES if options.max_width >= ROOM else {"p50": QUANTILES["p50"]}
        table = _grid()
        table.add_column("", no_wrap=True, overflow="ellipsis")
        for heading in (*quantiles, "worst"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("rank", no_wrap=True)
        middle_s = _quantile([row.step_s for row in rows], 0.5)
        lines: list[_Line] = [
            (Text(f"one {self._whole}"), lambda row: row.step_s, words.seconds, SLOWER * middle_s)
        ]
        lines += [
            (_entry(kind), partial(_spent, kind), words.seconds, SLOWER * middle_s) for kind in _kinds(rows)
        ]
        if any(row.last for row in rows):
            lines.append((Text("comes last"), lambda row: row.last or 0.0, words.percent, SLOWER))
        for label, value, written, least in lines:
            values = [value(row) for row in rows]
            worst = max(rows, key=value)
            differs = value(worst) - _quantile(values, 0.5) > least
            told = [written(_quantile(values, share)) for share in quantiles.values()]
            table.add_row(label, *told, written(value(worst)), harmless(worst.name) if differs else "")
        yield table


def _spent(kind: Kind, row: Row) -> float:
    return row.seconds.get(kind, 0.0)


def _quantile(values: Sequence[float], share: float) -> float:
    """The nearest-rank quantile: a value that some rank has."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def _grid(expand: bool = False) -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, expand=expand, header_style=parts.QUIET)


class _Table:
    """Rows with figures and strips; in little room the figures give way."""

    def __init__(self, rows: Sequence[Row], whole: str) -> None:
        self._rows = rows
        self._whole = whole
        self._with_nodes = any(row.node for row in rows)
        steps = [row.steps for row in rows if row.steps is not None]
        self._with_steps = bool(steps) and max(steps) - min(steps) > max(1, DIFFERENT * max(steps))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the table into the room there is."""
        figures = options.max_width >= ROOM
        told = [kind for kind in _kinds(self._rows) if kind.told] if figures else []
        with_last = figures and any(row.last is not None for row in self._rows)
        table = _grid(expand=True)
        for heading in ["rank"] + ["node"] * self._with_nodes:
            table.add_column(heading, no_wrap=True)
        headings = ["steps"] * self._with_steps + [self._whole] + [kind.label for kind in told]
        for heading in headings + ["last"] * with_last:
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column(ratio=1, no_wrap=True)
        longest_s = max((row.step_s for row in self._rows), default=0.0)
        for row in self._rows:
            style = "bold" if row.mark == LATE else ""
            table.add_row(*self._cells(row, told, with_last, longest_s), style=style)
        yield table

    def _cells(
        self, row: Row, told: Sequence[Kind], with_last: bool, longest_s: float
    ) -> Iterator[RenderableType]:
        yield Text(" ".join(filter(None, (harmless(row.name), row.mark))))
        if self._with_nodes:
            yield Text(harmless(row.node))
        if self._with_steps:
            yield f"{row.steps:,}" if row.steps is not None else ""
        yield "" if row.remark else words.seconds(row.step_s)
        for kind in told:
            yield words.seconds(row.seconds[kind]) if kind in row.seconds else ""
        if with_last:
            yield "" if row.remark or row.last is None else words.percent(row.last)
        yield Text(row.remark, style=parts.QUIET) if row.remark else Strip(row, longest_s)


class Strip:
    """A rank's step as a line of letters, as long as its share of the longest step shown."""

    def __init__(self, row: Row, longest_s: float) -> None:
        self._row = row
        self._longest_s = longest_s

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the strip into the width that the table leaves for it."""
        text, before_s = Text(), 0.0
        per_s = options.max_width / self._longest_s if self._longest_s else 0.0
        for kind, value_s in self._row.seconds.items():
            cells = round((before_s + value_s) * per_s) - round(before_s * per_s)
            text.append(kind.letter * cells, style=_style(kind))
            before_s += value_s
        yield text


class _Legend:
    """What the letters stand for, no entry broken by the end of a line."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = kinds

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw as many lines as it takes."""
        line = Text()
        for entry in map(_entry, self._kinds):
            if line and line.cell_len + len(APART) + entry.cell_len > options.max_width:
                yield line
                line = Text()
            line = line + APART + entry if line else entry
        yield line


def _entry(kind: Kind) -> Text:
    return Text.assemble((kind.letter, _style(kind)), (f" {kind.label}", ""))


def _style(kind: Kind) -> str:
    """Letters on the colour of a bar: without colour the letters are left."""
    return f"black on {kind.colour}"


def _kinds(rows: Sequence[Row]) -> list[Kind]:
    """What any rank spends visible time on, in the order of the strips."""
    found: dict[Kind, None] = {}
    for row in rows:
        found |= dict.fromkeys(row.seconds)
    return [
        kind
        for kind in found
        if kind.told or any(row.seconds.get(kind, 0.0) >= words.LEAST_SHOWN * row.step_s > 0 for row in rows)
    ]


def short(nodes: set[str]) -> dict[str, str]:
    """Each host's name without its domain, if that tells them apart, cut at the front where it is long."""
    bare = {node: node.split(".")[0] for node in nodes}
    if len(set(bare.values())) < len(nodes):
        bare = {node: node for node in nodes}
    return {
        node: name if len(name) <= LONGEST_NODE else "…" + name[1 - LONGEST_NODE :]
        for node, name in bare.items()
    }
