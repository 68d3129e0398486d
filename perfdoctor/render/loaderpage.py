"""A LoaderCurve as a page for people: the curve, what a batch costs, what to change."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from perfdoctor.analysis import loadernotes
from perfdoctor.analysis.loadercurve import BatchCost, LoaderCurve, Rate, Setting
from perfdoctor.render import parts, words
from perfdoctor.render.words import harmless

UNKNOWN = "-"
ALONE = (
    "This is loading alone. Beside training on the same cores fewer workers may be best:"
    " perfdoctor run predicts that."
)


def page(curve: LoaderCurve, width: int = 80, colour: bool = False, cwd: str = "") -> str:
    """The whole page as text, at most `width` columns wide."""
    return parts.spaced(_blocks(curve, cwd), parts.columns(width), colour)


def _blocks(curve: LoaderCurve, cwd: str) -> Iterator[RenderableType]:
    yield _title(curve)
    yield _verdict(curve)
    yield _table(curve)
    if curve.cost is not None:
        yield _cost(curve.cost)
    yield _change(curve, cwd)
    if curve.notes:
        yield parts.listed("Good to know", curve.notes)
    yield Text(f"Kept in {harmless(words.path(curve.path, cwd))}", style=parts.QUIET, overflow="fold")


def _title(curve: LoaderCurve) -> RenderableType:
    loader = curve.loader
    if loader is None:
        return Text("perfdoctor loader", style="bold")
    size = f"batches of {loader.batch_size}" if loader.batch_size else ""
    cores = f"{curve.cores:g} usable core{'' if curve.cores == 1 else 's'}"
    facts = [harmless(loader.dataset.removeprefix("__main__.")), size, cores]
    where = words.place(loader.at, curve.cwd) if loader.at is not None else "a library's"
    name = Text.assemble(("perfdoctor loader  ", "bold"), f"DataLoader at {harmless(where)}")
    return Group(parts.one_line(name), Text(words.joined(facts), style=parts.QUIET))


def _verdict(curve: LoaderCurve) -> RenderableType:
    settled = "green" if loadernotes.code(curve) is None else "yellow"
    colour = "blue" if loadernotes.is_unclear(curve) else settled
    sentence = Text(loadernotes.headline(curve), style=f"bold {colour}")
    return Group(sentence, *(parts.bullet(reason, parts.QUIET) for reason in loadernotes.reasons(curve)))


def _table(curve: LoaderCurve) -> RenderableType:
    """A row for each setting; the bars are shares of the best."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, expand=True, header_style=parts.QUIET)
    table.add_column(Text("workers", style="bold"), no_wrap=True)
    table.add_column("", ratio=1)
    for heading in ("warm", "cold", "no reads", "CPU", "start", "memory"):
        table.add_column(heading, justify="right", no_wrap=True)
    top = max(rate.batches_per_s for one in curve.settings if (rate := curve.rate(one)) is not None)
    for setting in curve.settings:
        table.add_row(*_row(curve, setting, top), style="bold" if setting.workers == curve.knee else "")
    told = (
        "Batches per second: of samples read before, of samples read for the first time in this run (their"
        " files may have been in memory), and of samples that are in memory already. CPU seconds of a batch,"
        " seconds to the first batch, memory of workers and waiting batches."
    )
    return Group(table, Text(told, style=parts.QUIET))


def _row(curve: LoaderCurve, setting: Setting, top: float) -> list[RenderableType]:
    marks = ["now" if curve.now is setting else "", "knee" if setting.workers == curve.knee else ""]
    rate = curve.rate(setting)
    share = rate.batches_per_s / top if rate is not None else 0.0
    name = " ".join([str(setting.workers), *filter(None, marks)])
    colour = "green" if setting.workers == curve.knee else "yellow"
    return [
        name,
        parts.Bar(0.0, share, colour),
        _per_second(setting.warm),
        _per_second(setting.cold),
        _per_second(setting.synthetic),
        words.seconds(setting.warm.cpu_s) if setting.warm else UNKNOWN,
        words.seconds(setting.first_batch_s) if setting.first_batch_s else UNKNOWN,
        words.size(setting.memory_bytes) if setting.worker_bytes else UNKNOWN,
    ]


def _per_second(rate: Rate | None) -> str:
    return UNKNOWN if rate is None else words.figures(rate.batches_per_s)


def _cost(cost: BatchCost) -> RenderableType:
    """What one batch is made of, each bar beginning where the one above ends."""
    rows = [("read, transform", cost.read_s, "yellow"), ("collate", cost.collate_s, "green")]
    if cost.hand_over_s is not None:
        rows.append(("hand over", cost.hand_over_s, "magenta"))
    whole_s = sum(value_s for _, value_s, _ in rows)
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    for justify in ("left", "right", "right"):
        table.add_column(justify=justify, no_wrap=True)
    table.add_column(ratio=1)
    before = 0.0
    for name, value_s, colour in rows:
        share = value_s / whole_s if whole_s else 0.0
        table.add_row(
            name, words.seconds(value_s), words.percent(share), parts.Bar(before, before + share, colour)
        )
        before += share
    heading = parts.two_columns()
    maker = "" if cost.hand_over_s is None else " from a worker"
    size = f"{words.figures(cost.samples)} samples" if cost.samples else ""
    heading.add_row(
        Text.assemble((f"One batch{maker}: ", "bold"), (words.seconds(whole_s), "bold")),
        Text(words.joined([size, words.size(cost.bytes) if cost.bytes else ""]), style=parts.QUIET),
    )
    return Group(heading, table)


def _change(curve: LoaderCurve, cwd: str) -> RenderableType:
    """The line to change, what it takes, and what this measurement does not know."""
    lines: list[RenderableType] = []
    code, knee, loader = loadernotes.code(curve), curve.at(curve.knee), curve.loader
    if code is not None and loader is not None:
        lines.append(Text("What to change", style="bold"))
        if loader.at is not None:
            name, source = words.place(loader.at, cwd), (loader.at.text or "").strip()
            place = Text.assemble((harmless(name), "cyan"), (f"  {harmless(source)}", parts.QUIET))
            lines.append(parts.one_line(place))
        way = Table.grid(padding=(0, 2, 0, 0), expand=True)
        way.add_column(no_wrap=True, style=parts.QUIET)
        way.add_column(ratio=1, overflow="fold")
        way.add_row("by hand", code)
        lines.append(way)
    if knee is not None and knee.workers and knee.worker_bytes and not loadernotes.is_unclear(curve):
        lines.append(parts.bullet(_memory(knee)))
    lines.append(parts.bullet(ALONE))
    return Group(*lines)


def _memory(setting: Setting) -> str:
    workers = words.count(setting.workers, "worker")
    return (
        f"memory: {workers} with {words.size(setting.worker_bytes or 0.0)} of their own and"
        f" {words.size(setting.shared_bytes)} of batches that wait in shared memory,"
        f" {words.size(setting.memory_bytes)} in all"
    )
