"""The tweaks as a list, grouped by what they do to the result, and one of them explained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from perfdoctor.catalogue import Tweak
from perfdoctor.probe.tweak import BITWISE, PATH, ROUNDING
from perfdoctor.render import parts

ABOUT = {
    BITWISE: "the losses stay the same to the last bit",
    ROUNDING: "the same mathematics in another order or precision",
    PATH: "other updates, or other data in them: compare what is learned",
}
HOW = (
    "Measure one:          perfdoctor try --workers 4",
    "Several as one:       perfdoctor try --workers 4 --amp -- train.py",
    "Alone and together:   perfdoctor try --each --workers 4 --amp",
    "What the run advises: perfdoctor try --auto",
    "Explain one:          perfdoctor try --list --amp",
)


def page(tweaks: Sequence[Tweak], width: int = 80, colour: bool = False) -> str:
    """Every tweak under what it does to the result, at most `width` columns wide."""
    return parts.spaced(_blocks(tweaks), parts.columns(width), colour)


def _blocks(tweaks: Sequence[Tweak]) -> Iterator[RenderableType]:
    column = max((len(_typed(tweak.flag, tweak.takes)) for tweak in tweaks), default=0)
    for result, about in ABOUT.items():
        table = Table.grid(padding=(0, 2, 0, 0), expand=True)
        table.add_column(min_width=column, no_wrap=True, style="cyan")
        table.add_column(ratio=1, overflow="fold")
        for tweak in tweaks:
            if tweak.result == result:
                table.add_row(_typed(tweak.flag, tweak.takes), tweak.title)
                for flag, takes in tweak.extras.items():
                    table.add_row("", Text(f"with {_typed(flag, takes)}", style=parts.QUIET))
        if table.row_count:
            yield Group(Text.assemble((result, "bold"), (f": {about}", parts.QUIET)), table)
    yield Text("\n".join(HOW), style=parts.QUIET)


def _typed(flag: str, takes: Any) -> str:
    return flag if takes is None else f"{flag} {takes.metavar}"


def explained(tweak: Tweak) -> str:
    """The tweak's page in Markdown."""
    _, _, rest = tweak.doc.partition("\n\n")
    takes = {tweak.flag: tweak.takes, **tweak.extras}
    values = [f"- `{flag}`: {'no value' if kind is None else kind.allowed}" for flag, kind in takes.items()]
    head = [f"# {tweak.id}", "", f"**{tweak.title}.**", "", *values, f"- result: {tweak.result}", ""]
    return "\n".join([*head, rest.strip()]) + "\n"
