"""Where the stretches of a waterfall lie, in percent of what is shown."""

from __future__ import annotations

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Phase
from perfdoctor.model.waterfall import Lane, LaneStretch, Waterfall
from perfdoctor.render import text
from perfdoctor.render.html import charts
from perfdoctor.render.html.charts import BoxPart, Tick
from perfdoctor.render.html.names import PHASES

STYLES = {
    "read": "batch-read",
    "collate": "batch-collate",
    "exchange": "exchanging",
    "loading": "data_wait",
    "operators": "other",
    "blocked": "validation",
    "compute": "forward",
    "communication": "exchanging",
    "copying": "host_to_device",
}
NAMES = {
    "read": "a worker makes the items of a batch",
    "collate": "and collates them",
    "exchange": "exchange between ranks",
    "loading": "waits for the loader",
    "operators": "runs operators",
    "blocked": "waits for the device",
    "compute": "kernels that compute",
    "communication": "kernels that exchange",
    "copying": "copies",
}


@dataclass(frozen=True)
class DrawnLane:
    """A lane of the waterfall, and what it is busy with in a sentence."""

    name: str
    parts: tuple[BoxPart, ...]
    told: str


@dataclass(frozen=True)
class DrawnWaterfall:
    """The lanes on one axis, what their colours mean beside those of the phases, and what to know of them."""

    lanes: tuple[DrawnLane, ...]
    borders: tuple[float, ...]
    ticks: tuple[Tick, ...]
    keys: tuple[tuple[str, str], ...]  # style and name
    told: str


def waterfall(fall: Waterfall) -> DrawnWaterfall:
    """The drawing."""
    kinds = {stretch.kind for lane in fall.lanes for stretch in lane.stretches}
    return DrawnWaterfall(
        tuple(_lane(lane, fall.length_s) for lane in fall.lanes),
        tuple(_percent(border_s, fall.length_s) for border_s in fall.borders_s[:-1]),
        charts.ticks(fall.length_s),
        tuple((STYLES[kind], NAMES[kind]) for kind in NAMES if kind in kinds),
        _told(fall),
    )


def _told(fall: Waterfall) -> str:
    """Which steps these are, and what to know of them."""
    if fall.window:
        return (
            f"{fall.window}, of median length. The profiler slows the host, so the device may look idler here"
            " than it is in other steps."
        )
    count = len(fall.borders_s)
    which = (
        f"Step {fall.first + 1:,}" if count == 1 else f"Steps {fall.first + 1:,} to {fall.first + count:,}"
    )
    listed = sum(lane.name.startswith("worker ") for lane in fall.lanes)
    workers = f" {listed} of {fall.workers} loader workers are listed." if listed < fall.workers else ""
    return (
        f"{which} of the run, of usual length; thin lines end a step. How long each phase takes is measured;"
        f" inside a step phases stand in their usual order.{workers}"
    )


def _lane(lane: Lane, length_s: float) -> DrawnLane:
    parts = tuple(_part(stretch, length_s) for stretch in lane.stretches)
    told = f"{lane.name}: {text.seconds(lane.busy_s)} of {text.seconds(length_s)}"
    return DrawnLane(lane.name, parts, told)


def _part(stretch: LaneStretch, length_s: float) -> BoxPart:
    took = text.seconds(stretch.end_s - stretch.begin_s)
    if stretch.kind in STYLES:
        name = stretch.name or NAMES[stretch.kind]
        style = STYLES[stretch.kind]
    else:
        name, style = PHASES[Phase(stretch.kind)], stretch.kind
    left, right = _percent(stretch.begin_s, length_s), _percent(stretch.end_s, length_s)
    return BoxPart(left, round(right - left, 3), style, f"{name}: {took}")


def _percent(at_s: float, length_s: float) -> float:
    return round(100 * at_s / length_s, 3) if length_s > 0 else 0.0
