"""Who waits, and who is waited for, over time: a strip for each rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.ranks import WaitsOverTime
from perfdoctor.render import text
from perfdoctor.render.html import charts
from perfdoctor.render.html.charts import BoxPart, Tick

LEVELS = (0.02, 0.08, 0.20, 0.40)  # shares of the time from which a part is drawn, and drawn stronger
RANKS = 32  # with a strip each; of more, those that wait or are waited for most


@dataclass(frozen=True)
class RankStrip:
    """When a rank waited, and when it was waited for."""

    name: str
    waited: tuple[BoxPart, ...]
    awaited: tuple[BoxPart, ...]
    told: str


@dataclass(frozen=True)
class DrawnWaits:
    """The strips on one axis."""

    strips: tuple[RankStrip, ...]
    ticks: tuple[Tick, ...]
    left_out: int


def waits(found: WaitsOverTime) -> DrawnWaits:
    """The drawing."""
    rows = list(zip(found.ranks, found.waited, found.awaited, strict=True))
    most = sorted(rows, key=lambda row: -max(sum(row[1]), sum(row[2])))[:RANKS]
    strips = tuple(
        RankStrip(
            f"rank {rank}",
            tuple(_parts(waited, found.edges_s, "waits", "waits for others")),
            tuple(_parts(awaited, found.edges_s, "awaited", "is waited for")),
            _told(waited, awaited, found.edges_s),
        )
        for rank, waited, awaited in sorted(most)
    )
    return DrawnWaits(strips, charts.ticks(found.edges_s[-1]), len(rows) - len(strips))


def _parts(shares: Sequence[float], edges_s: Sequence[float], style: str, verb: str) -> Iterator[BoxPart]:
    """Stretches of equal strength; where nearly nothing is waited, none."""
    whole_s = edges_s[-1]
    cells = zip(pairwise(edges_s), shares, strict=True)
    for level, group in groupby(cells, key=lambda cell: _level(cell[1])):
        stretch = list(group)
        (begin_s, _), (_, end_s) = stretch[0][0], stretch[-1][0]
        if level and whole_s > 0:
            left, right = (round(100 * at_s / whole_s, 2) for at_s in (begin_s, end_s))
            waited = sum((end - begin) * share for (begin, end), share in stretch) / (end_s - begin_s)
            told = f"{verb} {text.percent(waited)} of the time from {_at(begin_s)} to {_at(end_s)}"
            yield BoxPart(left, round(right - left, 2), f"{style}{level}", told)


def _level(share: float) -> int:
    return sum(share >= least for least in LEVELS)


def _at(moment_s: float) -> str:
    return text.duration(moment_s) if moment_s else "0 s"


def _told(waited: Sequence[float], awaited: Sequence[float], edges_s: Sequence[float]) -> str:
    lengths = [end_s - begin_s for begin_s, end_s in pairwise(edges_s)]
    means = [
        sum(share * length for share, length in zip(shares, lengths, strict=True)) / (sum(lengths) or 1.0)
        for shares in (waited, awaited)
    ]
    return f"It waits {text.percent(means[0])} of the time, and is waited for {text.percent(means[1])} of it."
