"""The tweaks as a list, grouped by what they do to the result, and one of them explained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from perfdoctor.model.tweak import Tweak
from perfdoctor.render import page as blocks
from perfdoctor.render.page import Headline, Page, Paragraph, Section

HOW = (
    "Measure one:          perfdoctor try --workers 4",
    "Several as one:       perfdoctor try --workers 4 --amp -- train.py",
    "Alone and together:   perfdoctor try --each --workers 4 --amp",
    "What the run advises: perfdoctor try --auto",
    "Explain one:          perfdoctor try --list --amp",
)


def page(tweaks: Sequence[Tweak], results: Mapping[str, str]) -> Page:
    """Every tweak under what it does to the result.

    `results` says what each result means, in the order in which they are shown.
    """
    return blocks.page(_sections(tweaks, results))


def _sections(tweaks: Sequence[Tweak], results: Mapping[str, str]) -> Iterator[Section]:
    column = max((len(_typed(tweak.flag, tweak.takes)) for tweak in tweaks), default=0)
    for result, about in results.items():
        rows: list[tuple[blocks.Words, blocks.Words]] = []
        for tweak in tweaks:
            if tweak.result == result:
                flag = _typed(tweak.flag, tweak.takes)
                rows.append((blocks.Span(flag.ljust(column), colour="cyan"), tweak.title))
                rows += [("", blocks.quiet(f"with {_typed(*extra)}")) for extra in tweak.extras.items()]
        if rows:
            yield [
                Headline((blocks.strong(result), blocks.quiet(f": {about}"))),
                blocks.Labelled(tuple(rows)),
            ]
    yield [Paragraph(blocks.quiet(line)) for line in HOW]


def _typed(flag: str, takes: Any) -> str:
    return flag if takes is None else f"{flag} {takes.metavar}"


def explained(tweak: Tweak) -> str:
    """The tweak's page in Markdown."""
    _, _, rest = tweak.doc.partition("\n\n")
    takes = {tweak.flag: tweak.takes, **tweak.extras}
    values = [f"- `{flag}`: {'no value' if kind is None else kind.allowed}" for flag, kind in takes.items()]
    head = [f"# {tweak.id}", "", f"**{tweak.title}.**", "", *values, f"- result: {tweak.result}", ""]
    return "\n".join([*head, rest.strip()]) + "\n"
