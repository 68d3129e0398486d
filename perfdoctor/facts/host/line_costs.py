"""Costs of the user's lines, from counted stack samples."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from perfdoctor.facts.user_source.frames import Frame
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import LineCost

MOST_LINES = 20  # per phase


def line_costs(
    counted: Mapping[tuple[Frame, str | None, str | None], int], share: float, sources: Sources
) -> tuple[LineCost, ...]:
    """Lines, costliest first; together they take `share`."""
    total = sum(counted.values())
    lines: dict[tuple[str, int, str | None], Counter[tuple[str, str | None]]] = defaultdict(Counter)
    for (user, leaf, kind), count in counted.items():
        lines[user.file, user.line, kind][user.function, leaf] += count
    costs = []
    for (file, line, kind), below in lines.items():
        samples = sum(below.values())
        (function, leaf), _ = below.most_common(1)[0]
        at = sources.at(file, line, function)
        costs.append(LineCost(at, share * samples / total, samples, leaf, kind))
    return costliest(costs)


def costliest(costs: Iterable[LineCost]) -> tuple[LineCost, ...]:
    """As many of them as are told, costliest first."""
    return tuple(sorted(costs, key=lambda cost: (-cost.share, cost.at.file, cost.at.line))[:MOST_LINES])
