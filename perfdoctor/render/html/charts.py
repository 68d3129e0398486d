"""Where the shapes of a chart lie: paths of numbers for a box of WIDTH by HEIGHT, stretched to the page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from perfdoctor.model.concluded import Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.timeline import SampleChart, StepBins, Unit
from perfdoctor.render import text
from perfdoctor.render.html.names import ORDER, PHASES

WIDTH, HEIGHT = 1000.0, 200.0
MOST_TICKS = 6  # of a time axis: their labels find room on a phone
MINUTE, HOUR = 60, 3600
ROUND_S = (  # between ticks, from a second on; below it 1, 2 and 5 of a decade
    *(1, 2, 5, 10, 15, 20, 30),
    *(MINUTE * minutes for minutes in (1, 2, 5, 10, 15, 20, 30)),
    *(HOUR * hours for hours in (1, 2, 3, 6, 12, 24, 48, 168)),
)
ROOM = 1.05  # above the highest value
CAP = 6.0  # of what all bins but one in fifty stay below: spikes beyond it are cut, and counted
MOST_BINS = 0.98
SMALLEST = 0.002  # of the bar: thinner parts are left out
LOG_ENDS = (1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)  # of the axis of gains


@dataclass(frozen=True)
class Drawn:
    """A path, the class that colours it, and its name."""

    path: str
    style: str
    name: str


@dataclass(frozen=True)
class Tick:
    """A line of the time axis: where, in percent of its length, and what stands below it."""

    at: float
    label: str


@dataclass(frozen=True)
class PlottedValues:
    """What the script reads off at the cursor: a value in each bin for each entry of the legend."""

    unit: str
    edges: tuple[float, ...]
    curves: tuple[tuple[float | None, ...], ...]
    keys: tuple[tuple[str, str], ...]  # the legend: style and name of each curve


@dataclass(frozen=True)
class Plot:
    """Shapes in the box, and what stands beside its axes."""

    title: str
    told: str  # the picture in a sentence, for who does not see it
    shapes: tuple[Drawn, ...]
    top: str
    ticks: tuple[Tick, ...]
    values: PlottedValues
    note: str = ""
    has_limit: bool = False


@dataclass(frozen=True)
class BoxPart:
    """A piece of a bar, in percent of its length."""

    left: float
    width: float
    style: str
    name: str


def steps_over_time(bins: StepBins, end_s: float) -> Plot:
    """The phases of the step stacked, and the longest step of each bin as a line above them.

    Of rows that stand for several steps only the mean is known, so the line is the longest mean there.
    """
    longest = _longest(bins)
    spent = [phase for phase in ORDER if any(bins.seconds.get(phase, ()))]
    columns = [[bins.seconds[phase][place] for phase in spent] for place in range(len(bins.longest_s))]
    stacked = [list(accumulate(column)) for column in columns]
    highest = sorted(bins.longest_s)
    usual = highest[int(MOST_BINS * (len(highest) - 1))]
    full = min(highest[-1], max(CAP * usual, max(column[-1] for column in stacked))) or 1.0
    shapes = []
    for place, phase in reversed(list(enumerate(spent))):
        levels = [column[place] for column in stacked]
        shapes.append(Drawn(_area(bins.edges_s, levels, full, end_s), phase.value, PHASES[phase]))
    for begin_s, until_s in bins.windows_s:
        path = _area((begin_s, until_s), (full * ROOM / 40,), full, end_s)
        shapes.append(Drawn(path, "window", "watched at a cost"))
    shapes.append(Drawn(_line(bins.edges_s, bins.longest_s, full, end_s), "longest", longest))
    beyond = [value_s for value_s in bins.longest_s if value_s > full * ROOM]
    note = ""
    if beyond:
        where = "one spike ends" if len(beyond) == 1 else f"{len(beyond)} spikes end"
        note = f"At the upper edge {where} that would be higher: up to {text.seconds(max(beyond))}."
    told = (
        f"Mean seconds of a step by phase in {text.count(len(columns), 'bin')}, and the {longest} of each;"
        f" the longest of all is {text.seconds(highest[-1])}."
    )
    known = [*(bins.seconds[phase] for phase in spent), bins.longest_s]
    keys = [*((phase.value, PHASES[phase]) for phase in spent), ("line-longest", f"{longest} of each bin")]
    values = PlottedValues("s", _edges(bins.edges_s), tuple(map(_rounded, known)), tuple(keys))
    top = text.seconds(full * ROOM)
    return Plot("Phases over the run", told, tuple(shapes), top, ticks(end_s), values, note)


def _longest(bins: StepBins) -> str:
    """What the line of longest steps can be called."""
    return "longest step" if bins.steps_a_row <= 1 else f"longest mean of up to {bins.steps_a_row:,} steps"


def samples_over_time(chart: SampleChart, end_s: float) -> Plot:
    """A line for the mean of each curve; where a bin holds several samples, a thin one for the largest."""
    known = [value for curve in chart.curves for value in curve.largest if value is not None]
    full = max([*known, chart.limit or 0.0]) or 1.0
    shapes, said = [], []
    for number, curve in enumerate(chart.curves):
        if curve.largest != curve.means:
            path = _line(chart.edges_s, curve.largest, full, end_s)
            shapes.append(Drawn(path, f"curve{number % 8} peaks", f"{curve.name}, largest sample"))
        path = _line(chart.edges_s, curve.means, full, end_s)
        shapes.append(Drawn(path, f"curve{number % 8}", curve.name))
        most = max((value for value in curve.largest if value is not None), default=0.0)
        said.append(f"{curve.name} up to {amount(most, chart.unit)}")
    if chart.limit:
        edges_s = (chart.edges_s[0], chart.edges_s[-1])
        shapes.append(Drawn(_line(edges_s, (chart.limit,), full, end_s), "limit", "limit"))
        said.append(f"the limit is {amount(chart.limit, chart.unit)}")
    return Plot(
        chart.name,
        f"{chart.name} over the run: {'; '.join(said)}.",
        tuple(shapes),
        amount(full * ROOM, chart.unit),
        ticks(end_s),
        PlottedValues(
            chart.unit,
            _edges(chart.edges_s),
            tuple(_rounded(one.means) for one in chart.curves),
            tuple((f"line-curve{number % 8}", one.name) for number, one in enumerate(chart.curves)),
        ),
        chart.note,
        bool(chart.limit),
    )


def amount(value: float, unit: Unit) -> str:
    """A value with its unit."""
    if unit == "share":
        return text.percent(value)
    if unit == "cores":
        return f"{text.figures(value)} cores"
    return text.size(value) + ("/s" if unit == "bytes_per_s" else "")


def ticks(end_s: float) -> tuple[Tick, ...]:
    """Round times of the axis, not more than fit."""
    if end_s <= 0:
        return ()
    step = _tick_step(end_s / MOST_TICKS)
    times = (number * step for number in range(MOST_TICKS + 1))
    return tuple(Tick(round(100 * at / end_s, 2), _time(at, step)) for at in times if at <= end_s)


def _tick_step(least_s: float) -> float:
    """The smallest round interval that is not below."""
    if least_s >= 1:
        return next((float(step) for step in ROUND_S if step >= least_s), least_s)
    decade = 10.0 ** math.floor(math.log10(least_s))
    return next(decade * digit for digit in (1, 2, 5, 10) if decade * digit >= least_s * (1 - 1e-9))


def _time(at_s: float, step_s: float) -> str:
    """A time of the axis, as exact as its ticks are apart."""
    if step_s < 1:
        scale, unit = (1e3, "ms") if step_s >= 1e-3 else (1e6, "µs")
        return f"{at_s * scale:.0f} {unit}" if at_s else "0"
    if step_s < 60:
        return f"{at_s:.0f} s"
    return f"{at_s / 60:.0f} min" if step_s < 3600 else f"{at_s / 3600:.0f} h"


def _rounded(values: Sequence[float | None]) -> tuple[float | None, ...]:
    """As exact as a reader can want them."""
    return tuple(None if value is None else float(f"{value:.4g}") for value in values)


def _edges(edges_s: Sequence[float]) -> tuple[float, ...]:
    """Borders of bins, of which there may be hundreds."""
    return tuple(round(edge_s, 6) for edge_s in edges_s)


def bar(seconds: Sequence[tuple[str, str, float]]) -> tuple[BoxPart, ...]:
    """Parts that follow each other: (class, name, seconds)."""
    whole_s = sum(value_s for _, _, value_s in seconds)
    parts, left = [], 0.0
    for style, name, value_s in seconds:
        share = value_s / whole_s if whole_s else 0.0
        if share >= SMALLEST:
            parts.append(BoxPart(round(100 * left, 3), round(100 * share, 3), style, name))
        left += share
    return tuple(parts)


# ---------------------------------------------------------------- gains


@dataclass(frozen=True)
class GainBar:
    """A predicted range on a logarithmic axis, in percent of its length."""

    low: float
    width: float
    likely: float
    ticks: tuple[float, ...]  # lines of the axis


def gain_ends(gains: Sequence[Gain]) -> tuple[float, float]:
    """Where the axis that all findings share begins and ends, as speedups."""
    highest = max((gain.high for gain in gains), default=1.0)
    lowest = min((gain.low for gain in gains), default=1.0)
    begin = 1.0 if lowest >= 1.0 else max(0.5, math.floor(20 * lowest) / 20)
    return begin, next((end for end in LOG_ENDS if end >= highest), LOG_ENDS[-1])


def gain_bar(gain: Gain, ends: tuple[float, float]) -> GainBar:
    """Where low, likely and high lie between the ends."""
    low, likely, high = (_logarithmic(value, ends) for value in (gain.low, gain.likely, gain.high))
    marks = [1.0, *LOG_ENDS]
    ticks = tuple(_logarithmic(mark, ends) for mark in marks if ends[0] < mark < ends[1])
    return GainBar(low, max(0.6, round(high - low, 2)), likely, ticks)


def _logarithmic(value: float, ends: tuple[float, float]) -> float:
    begin, end = ends
    inside = min(max(value, begin), end)
    return round(100 * math.log(inside / begin) / math.log(end / begin), 2)


# ---------------------------------------------------------------- paths


def _area(edges_s: Sequence[float], values: Sequence[float], full: float, end_s: float) -> str:
    """From the ground up to a level in each bin."""
    parts = [f"M{_x(edges_s[0], end_s)} {HEIGHT:.0f}"]
    for (_, end), value in zip(pairwise(edges_s), values, strict=True):
        parts.append(f"V{_y(value, full)}H{_x(end, end_s)}")
    return "".join([*parts, f"V{HEIGHT:.0f}Z"])


def _line(edges_s: Sequence[float], values: Sequence[float | None], full: float, end_s: float) -> str:
    """A level in each bin; nothing where it is not known."""
    return "".join(_levels(edges_s, values, full, end_s))


def _levels(
    edges_s: Sequence[float], values: Sequence[float | None], full: float, end_s: float
) -> Iterator[str]:
    is_drawing = False
    for (begin, end), value in zip(pairwise(edges_s), values, strict=True):
        if value is not None:
            height = _y(value, full)
            start = f"V{height}" if is_drawing else f"M{_x(begin, end_s)} {height}"
            yield f"{start}H{_x(end, end_s)}"
        is_drawing = value is not None


def _x(at_s: float, end_s: float) -> str:
    return f"{min(max(at_s / end_s, 0.0), 1.0) * WIDTH:.1f}" if end_s > 0 else "0"


def _y(value: float, full: float) -> str:
    return f"{HEIGHT * (1 - min(max(value / (full * ROOM), 0.0), 1.0)):.1f}"
