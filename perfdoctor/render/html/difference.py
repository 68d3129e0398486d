"""A run beside an earlier one: its phases as bars, and flame graphs coloured by what takes longer or less."""

from __future__ import annotations

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.flame import DifferenceFrame, FlameDifference, RunDifference
from perfdoctor.render import text
from perfdoctor.render.html import charts
from perfdoctor.render.html.charts import BoxPart
from perfdoctor.render.html.flame import OWNERS, ROW, DrawnFrame, Icicle, height, named
from perfdoctor.render.html.names import ORDER, PHASES

# Of the longer of the two steps, from which a difference gets a stronger colour.
NOTED, CLEAR, LARGE = 0.005, 0.03, 0.10
KEYS = (
    ("less3", "▼ much less"),
    ("less2", "▼ less"),
    ("less1", "▼ a little less"),
    ("same", "the same, or too few samples to tell"),
    ("more1", "▲ a little more"),
    ("more2", "▲ more"),
    ("more3", "▲ much more"),
)


@dataclass(frozen=True)
class DrawnDifference:
    """The panel."""

    name: str
    told: str
    bars: tuple[tuple[str, str, tuple[BoxPart, ...]], ...]  # run, its mean step, and its phases on one scale
    rows: tuple[tuple[str, str, str, str, str], ...]  # style, phase, before, after, difference
    flames: tuple[Icicle, ...]


def difference(found: RunDifference) -> DrawnDifference:
    """The drawing."""
    before_s, after_s = sum(found.before.values()), sum(found.after.values())
    longest_s = max(before_s, after_s)
    bars = []
    for name, seconds, whole_s in (
        (f"before ({found.name})", found.before, before_s),
        ("this run", found.after, after_s),
    ):
        spent = [(phase.value, PHASES[phase], seconds.get(phase, 0.0)) for phase in ORDER]
        bars.append((name, text.seconds(whole_s), charts.bar([*spent, ("nothing", "", longest_s - whole_s)])))
    phases = [
        (phase, found.before.get(phase, 0.0), found.after.get(phase, 0.0))
        for phase in ORDER
        if found.before.get(phase) or found.after.get(phase)
    ]
    return DrawnDifference(
        found.name,
        _told(before_s, after_s),
        tuple(bars) if phases else (),
        tuple(
            (phase.value, PHASES[phase], text.seconds(was), text.seconds(now), _by(now - was, True))
            for phase, was, now in phases
        ),
        tuple(_icicle(flame) for flame in found.flames),
    )


def _told(before_s: float, after_s: float) -> str:
    if not before_s or not after_s:
        return "One of the two runs made no step, so shares of all samples are compared."
    if before_s >= after_s:
        change = f"{text.times(before_s / after_s)} as fast"
    else:
        change = f"{text.times(after_s / before_s)} as long"
    return f"A step took {text.seconds(before_s)} and takes {text.seconds(after_s)}: {change}."


def _icicle(flame: FlameDifference) -> Icicle:
    before, after = flame.samples
    told = f"{before:,} stack samples before and {after:,} in this run"
    frames = tuple(_drawn(frame, flame) for frame in flame.frames)
    return Icicle(flame.name, told, height(flame.frames), frames)


def _drawn(frame: DifferenceFrame, flame: FlameDifference) -> DrawnFrame:
    style = _style(frame, max(flame.before, flame.after))
    mark = {"more": "▲ ", "less": "▼ "}.get(style[:4], "")
    amounts = [_amount(value, flame.in_seconds) for value in (frame.before, frame.after)]
    unit = " a step" if flame.in_seconds else " of the samples"
    chance = "" if frame.is_sure else ", which can be chance"
    by = _by(frame.after - frame.before, flame.in_seconds)
    return DrawnFrame(
        f"{100 * frame.left:.2f}",
        ROW * frame.depth,
        f"{100 * frame.width:.2f}",
        f"{style} frame-folded" if frame.owner == "folded" else style,
        mark + frame.name,
        f"{named(frame)}: {amounts[0]} → {amounts[1]}{unit}, {by}{chance}; {OWNERS[frame.owner]}",
    )


def _style(frame: DifferenceFrame, whole: float) -> str:
    share = abs(frame.after - frame.before) / whole if whole else 0.0
    strength = sum(share >= least for least in (NOTED, CLEAR, LARGE))
    if not strength or not frame.is_sure:
        return "same"
    return f"{'more' if frame.after > frame.before else 'less'}{strength}"


def _amount(value: float, in_seconds: bool) -> str:
    return text.seconds(value) if in_seconds else text.percent(value)


def _by(change: float, in_seconds: bool) -> str:
    """A difference with its sign."""
    sign = "+" if change > 0 else "−" if change < 0 else "±"
    return sign + _amount(abs(change), in_seconds)
