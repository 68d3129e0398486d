"""A Report and its Timeline as one HTML file: the panels' words and shapes, put into the template."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from perfdoctor.model.batch import BatchFacts
from perfdoctor.model.concluded import Finding, Verdict
from perfdoctor.model.measured import LoaderFacts, Location, StepFacts
from perfdoctor.model.out_of_memory import OutOfMemory
from perfdoctor.model.ranks import JobFacts
from perfdoctor.model.report import Report
from perfdoctor.model.timeline import Excerpt, Timeline
from perfdoctor.render import page as blocks
from perfdoctor.render import text
from perfdoctor.render.html import charts, flame
from perfdoctor.render.html.names import KINDS, ORDER, PHASES
from perfdoctor.render.notes import all_worded
from perfdoctor.render.page import Bullets, Headline, Paragraph
from perfdoctor.render.pages import conclusions, lines, out_of_memory, ranks, rates, resource_use

TEMPLATES = Path(__file__).parent / "templates"
LINES = 20  # of the most expensive ones
PLACES = 3  # of a finding, with the source around them
STAGES = 8  # colours of the stages of a batch
RANKS = 64  # with a row each; of more, the slowest

Excerpts = Mapping[tuple[str, int], Excerpt]


@dataclass(frozen=True)
class SourceLine:
    """A line of a source file as it is shown; the one that is meant is marked."""

    number: int
    text: str
    is_meant: bool


@dataclass(frozen=True)
class Card:
    """A finding, as the page shows it."""

    number: int
    title: str
    worth: str
    evidence: tuple[str, ...]
    places: tuple[tuple[str, tuple[SourceLine, ...]], ...]
    code: tuple[str, ...]
    command: str
    mind: str
    checked: str
    tip: str
    gain: charts.GainBar | None
    range: tuple[str, str, str]  # low, likely, high


def html(report: Report, timeline: Timeline, excerpts: Excerpts | None = None) -> str:
    """The whole file."""
    style = _environment().get_template("report.css").render()
    script = _environment().get_template("flame.js").render()
    return (
        _environment()
        .get_template("report.html")
        .render(
            style_hash=_digest(style),
            script_hash=_digest(script),
            **_panels(report, timeline, excerpts or {}),
        )
    )


def _digest(content: str) -> str:
    """By which the page's policy allows what stands inside it."""
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=_plain,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _plain(value: Any) -> Any:
    """What could turn the direction of text, or steer a viewer, written as an escape."""
    if isinstance(value, str) and not hasattr(value, "__html__") and not value.isprintable():
        return text.escape_control(value)
    return value


def _panels(report: Report, timeline: Timeline, excerpts: Excerpts) -> dict[str, Any]:
    run, steps = report.run, report.steps
    ends = charts.gain_ends([found.gain for found in report.findings if found.advice.change])
    return {
        "run": run,
        "name": text.script(run),
        "facts": _facts(report),
        "memory": _memory(report.out_of_memory, run.cwd) if report.out_of_memory is not None else None,
        "sentence": text.headline(report.diagnosis),
        "verdict": report.diagnosis.verdict.value,
        "confidence": _confidence(report),
        "bound": _bound(report),
        "because": report.diagnosis.because,
        "rates": rates.line(report.rates) if report.rates is not None and report.rates.is_told else "",
        "step": _step(steps) if steps is not None and steps.mean_s else None,
        "cards": [_card(found, run.cwd, excerpts, ends) for found in report.findings],
        "no_cards": _no_cards(report),
        "gain_ends": [f"{end:.3g}×" for end in ends],
        "together": text.gain(report.together) if report.together is not None else "",
        "phases": charts.steps_over_time(timeline.steps, timeline.end_s) if timeline.steps else None,
        "bins": timeline.steps,
        "samples": [charts.samples_over_time(chart, timeline.end_s) for chart in timeline.charts],
        "absent": timeline.absent or {},
        "loader": _loader(report.loader, run.cwd) if report.loader is not None else [],
        "batch": _batch(report.batch, run.cwd) if report.batch is not None else None,
        "lines": _lines(report),
        "unseen": _unseen(report),
        "flames": [flame.icicle(tree) for tree in timeline.flames],
        "job": _job(report.job, run.cwd) if report.job is not None else None,
        "notes": all_worded(report.notes),
        "not_judged": conclusions.not_judged(report.not_judged, name_all=True),
        "measured": list(_measured(report)),
    }


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


def _bound(report: Report) -> str:
    bound = report.diagnosis.speedup_bound
    free = conclusions.IF_FREE.get(report.diagnosis.verdict)
    return f"{free}: at most {text.times(bound)} as fast." if bound is not None and free else ""


def _no_cards(report: Report) -> str:
    """What stands where no finding does."""
    if report.steps is None:
        return "Without a step nothing is judged."
    if report.diagnosis.names_bottleneck:
        return "No tip fits this run: the phases show where to look."
    if report.diagnosis.verdict is Verdict.INCONCLUSIVE:
        return "Without a verdict nothing is advised; what could not be judged, and why, is below."
    return "No change is worth advising."


def _step(steps: StepFacts) -> dict[str, Any]:
    """The step as a bar, and as a table."""
    spent = [(phase, steps.seconds.get(phase, 0.0)) for phase in ORDER]
    spent = [(phase, value_s) for phase, value_s in spent if value_s > 0]
    rate = f"{text.figures(1 / steps.mean_s)} steps/s"
    if steps.samples_per_s:
        rate = f"{text.figures(steps.samples_per_s)} samples/s"
    return {
        "mean": text.seconds(steps.mean_s),
        "spread": f"median {text.seconds(steps.median_s)}, p95 {text.seconds(steps.p95_s)}",
        "rate": rate,
        "bar": charts.bar([(phase.value, PHASES[phase], value_s) for phase, value_s in spent]),
        "kinds": charts.kinds(spent),
        "rows": [
            (
                phase.value,
                PHASES[phase],
                KINDS[phase],
                text.seconds(value_s),
                text.percent(steps.share(phase)),
            )
            for phase, value_s in spent
        ],
    }


def _card(found: Finding, cwd: str, excerpts: Excerpts, ends: tuple[float, float]) -> Card:
    advice, gain = found.advice, found.gain
    low, likely, high = (text.times(value) for value in (gain.low, gain.likely, gain.high))
    return Card(
        found.rank,
        found.title,
        blocks.plain(conclusions.worth(found)),
        advice.because,
        tuple((text.place(at, cwd), _source(at, excerpts)) for at in advice.at[:PLACES]),
        tuple(advice.code.split("\n")) if advice.code else (),
        f"perfdoctor try {advice.tweak}" if advice.tweak else "",
        "" if advice.same_result else conclusions.CHANGES_RESULT,
        found.checked.value,
        f"perfdoctor tips {found.id}",
        charts.gain_bar(gain, ends) if advice.change else None,
        (low, likely, high),
    )


def _source(at: Location, excerpts: Excerpts) -> tuple[SourceLine, ...]:
    """The line and those around it, without the indentation that all of them have."""
    known = excerpts.get((at.file, at.line))
    if known is None:
        return (SourceLine(at.line, at.text.strip(), is_meant=True),) if at.text else ()
    shown = [line.expandtabs(4).rstrip() for line in known.lines]
    margin = min((len(line) - len(line.lstrip()) for line in shown if line), default=0)
    return tuple(
        SourceLine(number, line[margin:], number == at.line)
        for number, line in enumerate(shown, start=known.first)
    )


# ---------------------------------------------------------------- the panels below


def _loader(loader: LoaderFacts, cwd: str) -> list[tuple[str, str]]:
    """What is known of the loader, by name."""
    waits = loader.steady_wait_s
    rows = [
        ("built at", text.place(loader.at, cwd) if loader.at is not None else "not known"),
        ("dataset", loader.dataset.removeprefix("__main__.")),
        ("batch size", str(loader.batch_size) if loader.batch_size else "of its own sampler"),
        ("workers", str(loader.num_workers)),
        ("batches prepared while watched", f"{loader.batches:,}"),
        (
            "a batch takes",
            f"{text.seconds(loader.batch_s)}, {text.seconds(loader.batch_cpu_s)} of it CPU time",
        ),
        ("its spread", f"median {text.seconds(loader.batch_p50_s)}, p95 {text.seconds(loader.batch_p95_s)}"),
        ("size of a batch", text.size(loader.batch_bytes) if loader.batch_bytes else ""),
        ("wait for a later batch", text.seconds(waits) if waits is not None else ""),
        ("wait at an epoch's start", text.seconds(loader.epoch_start_s) if loader.epoch_start_s else ""),
    ]
    return [(name, value) for name, value in rows if value]


def _batch(batch: BatchFacts, cwd: str) -> dict[str, Any]:
    """The cost of a batch by stage, its costliest line beside each stage."""
    rows, parts = [], []
    for number, cost in enumerate(batch.costs):
        name = " ".join(filter(None, (cost.stage.value, cost.kind)))
        name += f" ({cost.library})" if cost.library else ""
        style = f"curve{number % STAGES}"
        parts.append((style, name, cost.share))
        place = text.place(cost.lines[0].at, cwd) if cost.lines else ""
        source = (cost.lines[0].at.text or "").strip() if cost.lines else ""
        took = text.seconds(cost.share * batch.batch_s)
        rows.append((style, name, took, text.percent(cost.share), place, source))
    where = "in a worker" if batch.in_workers else "in the training process"
    transfer = f"; {text.seconds(batch.transfer_s)} more to transfer it" if batch.transfer_s else ""
    return {
        "told": f"{text.seconds(batch.batch_s)} {where}{transfer}",
        "bar": charts.bar(parts),
        "rows": rows,
    }


def _lines(report: Report) -> list[tuple[str, ...]]:
    if report.lines is None:
        return []
    return [
        (
            text.seconds(line.self_s),
            text.percent(line.share),
            lines.phase(line),
            text.place(line.at, report.run.cwd),
            (line.at.text or "").strip(),
        )
        for line in report.lines.lines[:LINES]
        if line.share >= lines.LEAST
    ]


def _unseen(report: Report) -> str:
    if report.lines is None or report.steps is None or not report.steps.mean_s:
        return ""
    return text.percent(report.lines.unseen / report.steps.mean_s)


def _job(job: JobFacts, cwd: str) -> dict[str, Any]:
    """Each rank's step as a bar, on one scale, and what the terminal page says of all of them."""
    longest_s = max((rank.mean_s for rank in job.ranks), default=0.0) or 1.0
    rows = []
    slowest = sorted(job.ranks, key=lambda rank: rank.waiting_s - rank.mean_s)[:RANKS]
    for rank in job.ranks if len(job.ranks) <= RANKS else slowest:
        spent = [(phase.value, PHASES[phase], rank.seconds.get(phase, 0.0)) for phase in ORDER]
        idle = max(0.0, longest_s - rank.mean_s)
        straggler = job.straggler is not None and job.straggler.includes(rank)
        rows.append(
            {
                "name": f"{rank.rank}{', straggler' if straggler else ''}",
                "node": rank.node,
                "steps": f"{rank.steps:,}",
                "step": text.seconds(rank.mean_s) if rank.steps else "no step",
                "waiting": text.seconds(rank.waiting_s) if rank.matched else "not known",
                "ended": rank.ended or rank.inside or "",
                "bar": charts.bar([*spent, ("nothing", "", idle)]) if rank.steps else (),
            }
        )
    left_out = [f"the {RANKS} slowest ranks are listed"] if len(job.ranks) > RANKS else []
    return {"size": ranks.size(job), "said": [*_said(job, cwd), *left_out], "rows": rows}


def _said(job: JobFacts, cwd: str) -> Iterator[str]:
    for section in ranks.sections(job, cwd):
        for block in section if isinstance(section, Sequence) else (section,):
            if isinstance(block, Headline) and block.level > 3:
                yield f"{blocks.plain(block.words)} {blocks.plain(block.aside)}".strip()
            elif isinstance(block, Paragraph):
                yield blocks.plain(block.words)
            elif isinstance(block, Bullets):
                yield from (blocks.plain(entry) for entry in block.entries)


def _measured(report: Report) -> Iterator[tuple[str, str]]:
    """How it was measured, and what that cost."""
    run, cost = report.run, report.overhead
    if cost is not None:
        yield "cost", f"{text.seconds(cost.seconds_per_step)} a step ({text.percent(cost.share)} of it)"
        if cost.sampler_cores is not None:
            yield "samplers beside the script", f"{text.figures(cost.sampler_cores)} cores"
    if report.steps is not None:
        yield "steps", f"timed in the training process, each closed by: {report.steps.marker.name.lower()}"
        if report.diagnosis.model_error is not None:
            error = text.percent(abs(report.diagnosis.model_error))
            yield "model of the step", f"within {error} of the measured mean"
    if report.lines is not None:
        yield "lines", text.count(report.lines.samples, "stack sample")
    if report.window is not None:
        yield "inside the step", f"torch.profiler over {text.count(report.window.steps, 'step')}"
    if report.rates is not None:
        yield "rates", "; ".join(rates.explained(report.rates))
    if report.use is not None:
        yield "used", resource_use.used(report.use)
        if less := resource_use.enough(report.use):
            yield "enough would have been", less
    yield "command", " ".join(run.command)
    versions = [f"Python {run.python}" if run.python else "", f"torch {run.torch}" if run.torch else ""]
    yield "versions", text.joined(versions) or "not known"
    if report.path:
        yield "kept in", text.path(report.path, run.cwd)
