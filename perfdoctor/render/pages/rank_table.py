"""Ranks as rows, slowest first, each with a strip of letters for its step; of many, spread and outliers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from perfdoctor.diagnosis.outliers import outliers, quantile
from perfdoctor.model.dataclass import dataclass
from perfdoctor.render import page as blocks
from perfdoctor.render import text
from perfdoctor.render.page import (
    Block,
    Cell,
    Column,
    Grid,
    Headline,
    Legend,
    Paragraph,
    Section,
    Strip,
    Words,
)

FEW = 16  # ranks with a row each: they fit a screen; of more, percentiles are shown
NAMED = 7  # ranks that stand out, shown by name; with the median rank beside them eight rows
SLOWER = 0.02  # of the step: parts of it in which the worst differs by less from the median name no rank
SAME = 0.01  # of the step: ranks that differ by less stand in the order of their numbers, not of chance
QUANTILES = {"p5": 0.05, "p50": 0.5, "p95": 0.95}
ROOM = 60  # columns below which figures give way to the strips, which show the same
LONGEST_NODE = 14  # columns
STRAGGLER = "straggler"
DIFFERENT = 0.01  # of the steps: from here on it is worth a column that ranks made more or fewer


@dataclass(frozen=True)
class Kind:
    """One way to spend time, and how a strip shows it."""

    label: str
    letter: str
    colour: str
    told: bool = False  # in a column of figures beside the strips
    own: bool = True  # the rank's own doing; else it takes several, and depends on when each of them comes


WAIT = Kind("wait", "w", "bright_black", told=True, own=False)
TRANSFER = Kind("transfer", "t", "blue", told=True, own=False)
SYNCING = Kind("grad sync", "s", "blue", told=True, own=False)  # both, where they cannot be told apart


@dataclass(frozen=True)
class Row:
    """One rank. `seconds` are per step and add up to `step_s`, in the order of its strip."""

    name: str
    step_s: float
    seconds: Mapping[Kind, float]
    node: str = ""
    steps: int | None = None
    last: float | None = None  # share of the gradient syncs that it was the last to start
    mark: str = ""  # STRAGGLER, or another word beside the name
    remark: str = ""  # what stands in place of figures where there are none

    @property
    def own_s(self) -> float:
        """The step without gradient sync, which makes the steps of all ranks equally long."""
        return self.step_s - sum(value_s for kind, value_s in self.seconds.items() if not kind.own)


def heading(title: str, ranks: int, left_out: str) -> Headline:
    """What stands above the ranks: how many, and in which order their rows are."""
    order = ", slowest first" + (f", {left_out} left out" if left_out else "") if ranks <= FEW else ""
    return Headline((blocks.strong(title), blocks.quiet(order)))


def shown(rows: Sequence[Row], whole: str = "step") -> Iterator[Section]:
    """Each of a few ranks, or of many the spread and who stands out; `whole`: what `step_s` is called."""
    same_s = SAME * quantile([row.own_s for row in rows], 0.5) or 1.0
    ordered = sorted(rows, key=lambda row: (bool(row.remark), -round(row.own_s / same_s)))
    nodes = short({row.node for row in rows})
    ordered = [replace(row, node=nodes[row.node] if len(nodes) > 1 else "") for row in ordered]
    if len(rows) <= FEW:
        yield [_each(ordered, whole), _legend(ordered)]
    else:
        yield from _many(ordered, whole)


def _many(ordered: Sequence[Row], whole: str) -> Iterator[Section]:
    measured = [row for row in ordered if not row.remark]
    without: list[Block] = [
        Paragraph(blocks.quiet(f"{text.count(count, 'rank')}: {remark}"))
        for remark, count in Counter(row.remark for row in ordered if row.remark).items()
    ]
    if measured:
        yield [_spread(measured, whole)]
        out = _outliers(measured)
        median = replace(measured[len(measured) // 2], mark="median")
        yield [
            Headline(blocks.strong(_told_apart(out)), level=5),
            _each([*out[:NAMED], median], whole),
            *without,
        ]
    else:
        yield without


def _outliers(ordered: Sequence[Row]) -> list[Row]:
    """The straggler, then whoever takes much longer than the others, slowest first."""
    far = outliers([row.own_s for row in ordered])
    out = [row for place, row in enumerate(ordered) if row.mark or place in far]
    return sorted(out, key=lambda row: not row.mark)


def _told_apart(out: Sequence[Row]) -> str:
    if not out:
        return "No rank stands out; the median rank:"
    node, count = Counter(row.node for row in out).most_common(1)[0]
    together = f", {count:,} of them on {node}" if node and len(out) / 2 < count > 1 else ""
    slowest = f"; the {NAMED} slowest" if len(out) > NAMED else ""
    verb = "stands" if len(out) == 1 else "stand"
    return f"{text.count(len(out), 'rank')} {verb} out{together}{slowest}, and the median rank:"


def _spread(rows: Sequence[Row], whole: str) -> Grid:
    """A line for the step and each part of it: percentiles over the ranks, and who is worst."""
    quantiles = [Column(name, room=0 if name == "p50" else ROOM) for name in QUANTILES]
    columns = (Column(left=True), *quantiles, Column("worst"), Column("rank", left=True))
    least_s = SLOWER * quantile([row.step_s for row in rows], 0.5)
    names = [row.name for row in rows]
    parts: dict[Words, list[float]] = {f"one {whole}": [row.step_s for row in rows]}
    parts |= {_entry(kind): [row.seconds.get(kind, 0.0) for row in rows] for kind in _kinds(rows)}
    lines = [_spread_line(label, names, values, text.seconds, least_s) for label, values in parts.items()]
    if any(row.last for row in rows):
        last = [row.last or 0.0 for row in rows]
        lines.append(_spread_line("last to start", names, last, text.percent, SLOWER))
    return Grid(columns, tuple(lines))


def _spread_line(
    label: Words, names: Sequence[str], values: Sequence[float], written: Callable[[float], str], least: float
) -> tuple[Cell, ...]:
    worst = max(values)
    name = names[values.index(worst)] if worst - quantile(values, 0.5) > least else ""
    told = [written(quantile(values, share)) for share in QUANTILES.values()]
    return (label, *told, written(worst), name)


def _each(rows: Sequence[Row], whole: str) -> Grid:
    """Rows with figures and strips; in little room the figures give way."""
    steps = [row.steps for row in rows if row.steps is not None]
    with_steps = bool(steps) and max(steps) - min(steps) > max(1, DIFFERENT * max(steps))
    longest_s = max((row.step_s for row in rows), default=0.0)
    table: list[tuple[Column, list[Cell]]] = [
        (Column("rank", left=True), [" ".join(filter(None, (row.name, row.mark))) for row in rows])
    ]
    if any(row.node for row in rows):
        table.append((Column("node", left=True), [row.node for row in rows]))
    if with_steps:
        made = [f"{row.steps:,}" if row.steps is not None else "" for row in rows]
        table.append((Column("steps"), [*made]))
    table.append((Column(whole), ["" if row.remark else text.seconds(row.step_s) for row in rows]))
    for kind in filter(lambda kind: kind.told, _kinds(rows)):
        spent = [text.seconds(row.seconds[kind]) if kind in row.seconds else "" for row in rows]
        table.append((Column(kind.label, room=ROOM), [*spent]))
    if any(row.last is not None for row in rows):
        last = ["" if row.remark or row.last is None else text.percent(row.last) for row in rows]
        table.append((Column("last", room=ROOM), [*last]))
    strips = [blocks.quiet(row.remark) if row.remark else _strip(row, longest_s) for row in rows]
    table.append((Column(left=True, wide=True), [*strips]))
    stragglers = frozenset(place for place, row in enumerate(rows) if row.mark == STRAGGLER)
    columns, cells = zip(*table, strict=True)
    return Grid(columns, tuple(zip(*cells, strict=True)), stragglers)


def _strip(row: Row, longest_s: float) -> Strip:
    """A rank's step, as long as its share of the longest step shown."""
    whole_s = longest_s or 1.0
    return Strip(
        tuple((kind.letter, kind.colour, value_s / whole_s) for kind, value_s in row.seconds.items())
    )


def _legend(rows: Sequence[Row]) -> Legend:
    return Legend(tuple((kind.letter, kind.label, kind.colour) for kind in _kinds(rows)))


def _entry(kind: Kind) -> Words:
    return blocks.Span(kind.letter, filled=True, colour=kind.colour), f" {kind.label}"


def _kinds(rows: Sequence[Row]) -> list[Kind]:
    """What any rank spends visible time on, in the order of the strips."""
    found: dict[Kind, None] = {}
    for row in rows:
        found |= dict.fromkeys(row.seconds)
    return [
        kind
        for kind in found
        if kind.told or any(row.seconds.get(kind, 0.0) >= text.LEAST_SHOWN * row.step_s > 0 for row in rows)
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
