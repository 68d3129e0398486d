"""What a loader delivers by itself with each number of workers: a bar for each, and what training takes."""

from __future__ import annotations

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.loader_curve import LoaderCurve, Rate, WorkerSetting
from perfdoctor.model.measured import LoaderFacts, Phase, StepFacts
from perfdoctor.render import text
from perfdoctor.render.notes import all_worded
from perfdoctor.render.pages.loader import ALONE

ROOM = 1.05  # beyond the longest bar


@dataclass(frozen=True)
class SettingBar:
    """One number of workers: its bar, and the doubt about it, in percent of the axis."""

    name: str
    width: float
    style: str
    doubt: tuple[float, float]
    told: str


@dataclass(frozen=True)
class DrawnCurve:
    """The bars on one axis; `wanted` is where training would take all that comes."""

    headline: str
    because: tuple[str, ...]
    bars: tuple[SettingBar, ...]
    wanted: float | None
    told: str
    path: str


def worker_curve(
    curve: LoaderCurve, loader: LoaderFacts | None, step: StepFacts | None, cwd: str
) -> DrawnCurve:
    """The drawing of a curve that has settings; `loader` and `step` are those of the run beside it."""
    rates = {one.workers: rate for one in curve.settings if (rate := curve.rate(one)) is not None}
    wanted = _wanted(loader, step)
    most = max((*(rate.batches_per_s for rate in rates.values()), wanted or 0.0)) * ROOM
    bars = tuple(_bar(curve, one, rates[one.workers], most) for one in curve.settings if one.workers in rates)
    read = "read for the first time" if curve.judged == "cold" else "read before"
    line = f" Dashed: {text.figures(wanted)}, which training takes if it never waits." if wanted else ""
    return DrawnCurve(
        curve.headline,
        tuple(all_worded(curve.because)),
        bars,
        round(100 * wanted / most, 2) if wanted else None,
        f"Batches a second of samples that were {read}; thin lines are the doubt.{line} {ALONE}",
        text.path(curve.path, cwd),
    )


def _wanted(loader: LoaderFacts | None, step: StepFacts | None) -> float | None:
    """Batches a second that training would take if it never waited for one."""
    if loader is None or step is None:
        return None
    busy_s = step.mean_s - step.seconds.get(Phase.DATA_WAIT, 0.0)
    return loader.batches_per_step / busy_s if busy_s > 0 and loader.batches_per_step > 0 else None


def _bar(curve: LoaderCurve, setting: WorkerSetting, rate: Rate, most: float) -> SettingBar:
    is_enough = setting.workers == curve.knee and not curve.unclear
    marks = ["as now" if curve.now is setting else "", "enough" if is_enough else ""]
    percent = 100 * rate.batches_per_s / most
    return SettingBar(
        text.joined([text.count(setting.workers, "worker"), *marks]),
        round(percent, 2),
        "knee" if is_enough else "setting",
        (round(percent * (1 - min(1.0, rate.noise)), 2), round(min(100.0, percent * (1 + rate.noise)), 2)),
        f"{text.figures(rate.batches_per_s)} batches/s",
    )
