"""A LoaderCurve as a page for people: the curve, what a batch costs, what to change."""

from __future__ import annotations

from collections.abc import Iterator

from perfdoctor.model.loader_curve import BatchCost, LoaderCurve, Rate, WorkerSetting
from perfdoctor.render import page as blocks
from perfdoctor.render import text
from perfdoctor.render.notes import all_worded
from perfdoctor.render.page import (
    Bar,
    BarPart,
    Bars,
    Block,
    Cell,
    Column,
    Headline,
    Labelled,
    Page,
    Paragraph,
    Section,
)

UNKNOWN = "-"
SEEN = 0.01  # of reading: a sampler that takes less has no row
ALONE = (
    "This measures loading alone. If training shares the cores, fewer workers may be best:"
    " perfdoctor run predicts that."
)


def page(curve: LoaderCurve, cwd: str = "") -> Page:
    """The whole page; files are named as seen from `cwd`."""
    return blocks.page(_sections(curve, cwd))


def _sections(curve: LoaderCurve, cwd: str) -> Iterator[Section]:
    yield _title(curve)
    yield _verdict(curve)
    yield _settings(curve)
    if curve.cost is not None:
        yield _cost(curve.cost)
    yield [*_change(curve, cwd), blocks.bullets(_beside(curve))]
    if curve.notes:
        yield blocks.listed("Good to know", all_worded(curve.notes))
    yield [Paragraph(blocks.quiet(f"Kept in {text.path(curve.path, cwd)}"))]


def _title(curve: LoaderCurve) -> list[Block]:
    loader = curve.loader
    if loader is None:
        return [Headline(blocks.strong("perfdoctor loader"), level=1)]
    size = f"batches of {loader.batch_size}" if loader.batch_size else ""
    cores = f"{curve.cores:g} usable core{'' if curve.cores == 1 else 's'}"
    facts = [loader.dataset.removeprefix("__main__."), size, cores]
    where = text.place(loader.at, curve.cwd) if loader.at is not None else "a library's"
    name = (blocks.strong("perfdoctor loader  "), f"DataLoader at {where}")
    return [Headline(name, level=1, cut=True), Paragraph(blocks.quiet(text.joined(facts)))]


def _verdict(curve: LoaderCurve) -> list[Block]:
    settled = "green" if curve.code is None else "yellow"
    colour = "blue" if curve.unclear else settled
    sentence = Headline(blocks.strong(curve.headline, colour), level=2)
    return [sentence, blocks.bullets(all_worded(curve.because), quietly=True)]


def _settings(curve: LoaderCurve) -> list[Block]:
    """A row for each setting; the bars are shares of the best."""
    names = ("warm", "cold", "no reads", "CPU", "start", "memory")
    figures = (Column(name, gives=name != "warm") for name in names)
    columns = (Column(blocks.strong("workers"), left=True), Column(left=True, wide=True), *figures)
    top = max(rate.batches_per_s for one in curve.settings if (rate := curve.rate(one)) is not None)
    rows = tuple(_row(curve, setting, top) for setting in curve.settings)
    knee = (place for place, setting in enumerate(curve.settings) if setting.workers == curve.knee)
    told = (
        "Batches per second: of samples read before, of samples read for the first time in this run (their"
        " files may have been in the page cache), and with one sample kept in memory, so that nothing is"
        " read. CPU time per batch, time to the first batch, and memory of workers and queued batches."
    )
    return [blocks.Grid(columns, rows, frozenset(knee)), Paragraph(blocks.quiet(told))]


def _row(curve: LoaderCurve, setting: WorkerSetting, top: float) -> tuple[Cell, ...]:
    marks = ["now" if curve.now is setting else "", "knee" if setting.workers == curve.knee else ""]
    rate = curve.rate(setting)
    return (
        " ".join([str(setting.workers), *filter(None, marks)]),
        Bar(
            rate.batches_per_s / top if rate is not None else 0.0,
            "green" if setting.workers == curve.knee else "yellow",
        ),
        _per_second(setting.warm),
        _per_second(setting.cold),
        _per_second(setting.synthetic),
        text.seconds(setting.warm.cpu_s) if setting.warm else UNKNOWN,
        text.seconds(setting.first_batch_s) if setting.first_batch_s else UNKNOWN,
        text.size(setting.memory_bytes) if setting.worker_bytes else UNKNOWN,
    )


def _per_second(rate: Rate | None) -> str:
    return UNKNOWN if rate is None else text.figures(rate.batches_per_s)


def _cost(cost: BatchCost) -> list[Block]:
    """What one batch is made of, each bar beginning where the one above ends."""
    stages = [("read, transform", cost.read_s, "yellow"), ("collate", cost.collate_s, "green")]
    if cost.draw_s > SEEN * cost.read_s:
        stages.insert(0, ("sampler", cost.draw_s, "cyan"))
    if cost.hand_over_s is not None:
        stages.append(("worker transfer", cost.hand_over_s, "magenta"))
    whole_s = sum(value_s for _, value_s, _ in stages)
    parts = tuple(
        BarPart(name, text.seconds(value_s), value_s / whole_s if whole_s else 0.0, colour)
        for name, value_s, colour in stages
    )
    maker = "" if cost.hand_over_s is None else " from a worker"
    size = f"{text.figures(cost.samples)} samples" if cost.samples else ""
    holds = text.joined([size, text.size(cost.bytes) if cost.bytes else ""])
    heading = blocks.strong(f"One batch{maker}: {text.seconds(whole_s)}")
    return [Headline(heading, blocks.quiet(holds), level=5), Bars(parts)]


def _change(curve: LoaderCurve, cwd: str) -> Iterator[Block]:
    """The line to change, and what it takes."""
    code, loader = curve.code, curve.loader
    if code is None or loader is None:
        return
    yield Headline(blocks.strong("What to change"))
    if loader.at is not None:
        yield blocks.CodeLines(((text.path(loader.at.file, cwd), loader.at.line, loader.at.text or ""),))
    yield Labelled((("by hand", blocks.Code(code)),))


def _beside(curve: LoaderCurve) -> Iterator[str]:
    """What a change takes, and what this measurement does not know."""
    knee = curve.at(curve.knee)
    if knee is not None and knee.workers and knee.worker_bytes and not curve.unclear:
        yield _memory(knee)
    yield ALONE


def _memory(setting: WorkerSetting) -> str:
    workers = text.count(setting.workers, "worker")
    return (
        f"memory: {workers} with {text.size(setting.worker_bytes or 0.0)} of their own and"
        f" {text.size(setting.shared_bytes)} of batches that wait in shared memory,"
        f" {text.size(setting.memory_bytes)} in all"
    )
