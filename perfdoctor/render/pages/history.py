"""The history of a machine as a page: each trial beside its prediction, and what they come to by kind."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.history import History, TriedChange, TriedKind
from perfdoctor.render import page as blocks
from perfdoctor.render import text
from perfdoctor.render.page import Block, Cell, Column, Grid, Headline, Page, Paragraph, Section
from perfdoctor.render.pages.trial import CALM, COLOURS
from perfdoctor.render.pages.trial_words import ratio

WITH_VERDICTS = 90  # columns from which trials have their verdicts, too
CPU = "cpu"


def page(history: History, limit: int) -> Page:
    """The whole page, with so many of the newest trials."""
    return blocks.page(_sections(history, limit))


def _sections(history: History, limit: int) -> Iterator[Section]:
    shown = history.changes[:limit]
    yield _title(history, len(shown))
    if shown:
        yield _trials(shown)
    if history.kinds:
        yield _kinds(history.kinds)
    if history.unread:
        unread = text.count(history.unread, "line")
        yield blocks.listed("Good to know", [f"{unread} of the history cannot be read: left out"])
    yield [
        Paragraph(blocks.quiet(f"Kept in {history.path}")),
        Paragraph(blocks.quiet("Remove it: perfdoctor history --clear")),
    ]


def _title(history: History, shown: int) -> list[Block]:
    count = len(history.changes)
    scripts = len({change.script_id for change in history.changes})
    facts = [
        f"{text.count(count, 'trial')} of {text.count(scripts, 'script')}",
        f"the newest {shown:,} are shown" if 0 < shown < count else "",
    ]
    return [
        Headline(blocks.strong("perfdoctor history"), level=1),
        Paragraph(blocks.quiet(text.joined(facts))),
    ]


def _trials(changes: Iterable[TriedChange]) -> list[Block]:
    """A row for each, the newest first."""
    columns = (
        Column("when", left=True),
        Column(blocks.strong("Tried"), left=True, wide=True, fold=True),
        Column("predicted"),
        Column("measured"),
        Column(left=True, room=WITH_VERDICTS),
    )
    return [Grid(columns, tuple(map(_row, changes)))]


def _row(change: TriedChange) -> tuple[Cell, ...]:
    return (
        time.strftime("%Y-%m-%d", time.localtime(change.epoch_s)),
        f"{change.script}  {' '.join(change.tweaks)}",
        ratio(change.predicted),
        text.times(change.measured.likely),
        blocks.Span(change.outcome.value, colour=COLOURS.get(change.outcome, CALM)),
    )


def _kinds(kinds: Sequence[TriedKind]) -> list[Block]:
    """A row for each kind of change: how well its gains were predicted."""
    headings = ("cases", "within range", "step off by", "ranges by")
    rows = tuple(
        (
            _name(kind),
            f"{kind.cases:,}",
            text.percent(kind.covered),
            text.percent(kind.step_error),
            "this machine" if kind.fitted else "built in",
        )
        for kind in kinds
    )
    told = (
        "A case is a change of a script, by its newest trial. Within range: the measured speedup lies in"
        " the range that was printed, as four of five should. Step off by: the median error of the predicted"
        " step time. From ten cases of one class on, later ranges come from this machine's trials."
    )
    return [blocks.table("By class of time", headings, rows), Paragraph(blocks.quiet(told))]


def _name(kind: TriedKind) -> str:
    classes = " + ".join(each.value for each in Bottleneck if each in kind.acts_on) or "none"
    return classes if kind.device == CPU else f"{classes}, {kind.device}"
