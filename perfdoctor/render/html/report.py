"""A Report and its Timeline as one HTML file: the panels' words and shapes, put into the template."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from perfdoctor.model.concluded import Diagnosis, Verdict
from perfdoctor.model.loader_curve import LoaderCurve
from perfdoctor.model.measured import StepFacts
from perfdoctor.model.out_of_memory import OutOfMemory
from perfdoctor.model.report import Report
from perfdoctor.model.timeline import Timeline
from perfdoctor.model.trial import Trial
from perfdoctor.model.waterfall import Waterfall
from perfdoctor.render import text
from perfdoctor.render.html import charts, document, falls, flame, panels, waits
from perfdoctor.render.html import difference as differences
from perfdoctor.render.html.cards import Card, Excerpts, cards
from perfdoctor.render.html.charts import Plot
from perfdoctor.render.html.falls import DrawnWaterfall
from perfdoctor.render.html.names import CLASSES, ORDER, PHASES
from perfdoctor.render.html.trial_rows import trial_rows
from perfdoctor.render.html.worker_curve import worker_curve
from perfdoctor.render.notes import all_worded
from perfdoctor.render.page import Section
from perfdoctor.render.pages import conclusions, out_of_memory, ranks, rates


def html(
    report: Report,
    timeline: Timeline,
    excerpts: Excerpts | None = None,
    trials: Sequence[Trial] = (),
    window: Iterable[Section] = (),
    curve: LoaderCurve | None = None,
    again: str = "",
) -> str:
    """The whole file. `trials` and `curve`: of the same command; `window`: what one of the profiler saw.

    `again`: what `perfdoctor try` needs beside a tweak to run this command again.
    """
    shown = cards(report.findings, report.run.cwd, excerpts or {}, trials, again)
    values = _panels(report, timeline, shown, trials, list(window))
    values["curve"] = (
        worker_curve(curve, report.loader, report.steps, report.run.cwd) if curve is not None else None
    )
    scripts = ["time.js"] if values["plots"] else []
    scripts += ["flame.js"] if values["flames"] or timeline.difference is not None else []
    return document.filled("report.html", scripts, **values)


def _panels(
    report: Report,
    timeline: Timeline,
    drawn: tuple[list[Card], tuple[str, str]],
    trials: Sequence[Trial],
    window: list[Section],
) -> dict[str, Any]:
    run, steps, beside = report.run, report.steps, timeline.difference
    shown, gain_ends = drawn
    phases = charts.steps_over_time(timeline.steps, timeline.end_s) if timeline.steps else None
    samples = [charts.samples_over_time(chart, timeline.end_s) for chart in timeline.charts]
    plots = [*([phases] if phases is not None else []), *samples]
    return {
        "title": f"{text.script(run)}: {text.headline(report.diagnosis)}",
        "name": text.script(run),
        "facts": _facts(report),
        "memory": _memory(report.out_of_memory, run.cwd) if report.out_of_memory is not None else None,
        "sentence": text.headline(report.diagnosis),
        "verdict": report.diagnosis.verdict.value,
        "confidence": _confidence(report),
        "bound": conclusions.if_free(report.diagnosis),
        "because": report.diagnosis.because,
        "rates": rates.line(report.rates) if report.rates is not None and report.rates.is_told else "",
        "step": _step(steps, report.diagnosis) if steps is not None and steps.mean_s else None,
        "of_rank": f" of rank {report.job.shown}" if report.job is not None else "",
        "fall": _fall(timeline.waterfall),
        "device_fall": _fall(timeline.device_waterfall),
        "cards": shown,
        "no_cards": _no_cards(report),
        "gain_ends": gain_ends,
        "together": text.gain(report.together) if report.together is not None else "",
        "plots": plots,
        "values": _values(plots, timeline.end_s),
        "phases": phases,
        "bins": timeline.steps,
        "samples": samples,
        "absent": timeline.absent or {},
        "loader": panels.loader(report.loader, run.cwd) if report.loader is not None else [],
        "batch": panels.batch(report.batch, run.cwd) if report.batch is not None else None,
        "inside": panels.inside(window),
        "lines": panels.costly_lines(report),
        "unseen": panels.unseen(report),
        "threads": flame.thread_rows(timeline.threads),
        "kernel_clock": flame.kernel_clock(timeline.on_core, timeline.without_core),
        "flames": [flame.icicle(tree) for tree in timeline.flames],
        "difference": differences.difference(beside) if beside is not None else None,
        "difference_keys": differences.KEYS,
        "job": panels.job(report.job, run.cwd) if report.job is not None else None,
        "waits": waits.waits(timeline.waits) if timeline.waits is not None else None,
        "trials": trial_rows(trials),
        "notes": all_worded(report.notes),
        "not_judged": conclusions.not_judged(report.not_judged, name_all=True),
        "measured": list(panels.measured(report)),
    }


def _fall(fall: Waterfall | None) -> DrawnWaterfall | None:
    return falls.waterfall(fall) if fall is not None else None


def _values(plots: Sequence[Plot], end_s: float) -> dict[str, Any]:
    """What the cursor reads: the length of the axis, and for each chart its bins."""
    shown = [
        {"unit": plot.values.unit, "edges": plot.values.edges, "curves": plot.values.curves} for plot in plots
    ]
    return {"end": end_s, "charts": shown}


# ---------------------------------------------------------------- the first screen


def _facts(report: Report) -> list[str]:
    run = report.run
    steps = text.count(report.steps.count, "step") if report.steps else "no steps"
    several = f"{run.ranks} ranks" if run.ranks > 1 else ""
    of_job = ranks.size(report.job) if report.job is not None else several
    facts = [text.ending(run), steps, text.duration(run.duration_s), run.device, of_job]
    return [fact for fact in facts if fact]


def _memory(ended: OutOfMemory, cwd: str) -> dict[str, Any]:
    """The end of a run that found no memory left."""
    place = "" if ended.at is None else f"{text.place(ended.at, cwd)}  {ended.at.text or ''}".rstrip()
    return {
        "heading": out_of_memory.heading(ended),
        "place": place,
        "asked": out_of_memory.asked(ended),
        "rows": [(each.name, text.size(each.held_bytes)) for each in ended.held],
        "remedies": all_worded(ended.remedies),
    }


def _confidence(report: Report) -> str:
    known = report.diagnosis.verdict is not Verdict.INCONCLUSIVE
    return report.diagnosis.confidence.value if known else ""


def _no_cards(report: Report) -> str:
    """What stands where no finding does."""
    if report.steps is None:
        return "Without a step nothing is judged."
    if report.diagnosis.names_bottleneck:
        return "No known cause fits; the phases show where the time goes."
    if report.diagnosis.verdict is Verdict.INCONCLUSIVE:
        return "Without a verdict nothing is advised; what could not be judged, and why, is below."
    return "No change is worth advising."


def _step(steps: StepFacts, diagnosis: Diagnosis) -> dict[str, Any]:
    """The mean step as a bar by phase, in figures, and as a bar by the classes of the verdict."""
    spent = [(phase, steps.seconds.get(phase, 0.0)) for phase in ORDER]
    spent = [(phase, value_s) for phase, value_s in spent if value_s > 0]
    rate = f"{text.figures(1 / steps.mean_s)} steps/s"
    if steps.samples_per_s:
        rate = f"{text.figures(steps.samples_per_s)} samples/s"
    classes = diagnosis.classes
    charged = [(f"class-{kind.value}", kind.value, classes.get(kind, 0.0)) for kind in CLASSES]
    return {
        "mean": text.seconds(steps.mean_s),
        "spread": f"median {text.seconds(steps.median_s)}, p95 {text.seconds(steps.p95_s)}",
        "rate": rate,
        "bar": charts.bar([(phase.value, PHASES[phase], value_s) for phase, value_s in spent]),
        "classes": charts.bar(charged),
        "charged": [
            (style, f"{name} {text.percent(share)}")
            for style, name, share in charged
            if share >= text.LEAST_SHOWN
        ],
        "other": conclusions.other(diagnosis),
        "figures": [
            (phase.value, PHASES[phase], text.seconds(value_s), text.percent(steps.share(phase)))
            for phase, value_s in spent
        ],
    }
