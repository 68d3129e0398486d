"""Findings that are about the same work: what spares it goes before what makes it quicker.

Of several ways to the same end one is kept, and what is about lines that another one spares adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfdoctor.model.concluded import Advice, Gain
from perfdoctor.model.note import Note
from perfdoctor.model.tip import Tip

Advised = tuple[Tip, Advice, Gain]


def without_rivals(advised: Sequence[Advised]) -> tuple[list[Advised], list[Note]]:
    """Of tips that serve the same end, or undo each other, the one that is worth most; notes on the rest.

    One that spares work is preferred to those that make it quicker.
    """
    left, kept = list(advised), list[Advised]()
    notes = []
    while left:
        tip, advice, gain = entry = whose_turn(left)[0]
        left.remove(entry)
        better = next((other for other, *_ in kept if _are_rivals(tip, other)), None)
        if better is None:
            kept.append((tip, advice, gain))
        else:
            notes.append(Note("rival", {"title": tip.title, "gain": gain.likely, "better": better.title}))
    return kept, notes


def whose_turn(left: Sequence[Advised]) -> list[Advised]:
    """Those of them whose turn it is: none of the others spares the work that they are about."""
    spared = {tip_id for tip, *_ in left for tip_id in tip.heading.before}
    return [entry for entry in without_spared(left) if entry[0].id not in spared]


def without_spared(advised: Sequence[Advised]) -> list[Advised]:
    """Those of them whose line still has something to do once any of the others is done."""
    return [entry for entry in advised if not any(_spares(other, entry) for other in advised)]


def _spares(other: Advised, entry: Advised) -> bool:
    lines = {(at.file, at.line) for at in other[1].spares}
    advice = entry[1]
    return other is not entry and any((at.file, at.line) in lines for at in (*advice.at[:1], *advice.leading))


def _are_rivals(tip: Tip, other: Tip) -> bool:
    return other.id in tip.heading.rivals or tip.id in other.heading.rivals
