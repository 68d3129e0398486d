"""What stands below the first screen: the loader, lines, ranks, and how all of it was measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from markupsafe import Markup

from perfdoctor.model.batch import BatchFacts
from perfdoctor.model.measured import LoaderFacts
from perfdoctor.model.ranks import JobFacts
from perfdoctor.model.report import Report
from perfdoctor.render import text
from perfdoctor.render.html import blocks, charts
from perfdoctor.render.html.names import ORDER, PHASES
from perfdoctor.render.page import Block, Section
from perfdoctor.render.pages import lines, ranks, rates, resource_use

LINES = 20  # of the costliest ones
STAGES = 8  # colours of the stages of a batch
RANKS = 64  # with a row each; of more, the slowest


def inside(page: Sequence[Section]) -> list[Markup]:
    """What a page of a trace says, a section each."""
    return [_together(section) for section in page]


def _together(section: Iterable[Block]) -> Markup:
    """Blocks of a page as they stand in a panel."""
    return blocks.JOIN(map(blocks.drawn, section))


def loader(loader: LoaderFacts, cwd: str) -> list[tuple[str, str]]:
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


def batch(batch: BatchFacts, cwd: str) -> dict[str, Any]:
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


def costly_lines(report: Report) -> list[tuple[str, ...]]:
    """The costliest lines: seconds a step, share of it, phase, place and source of each."""
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


def unseen(report: Report) -> str:
    """The share of the step that no line was seen to take; "" where that is not known."""
    if report.lines is None or report.steps is None or not report.steps.mean_s:
        return ""
    return text.percent(report.lines.unseen / report.steps.mean_s)


def job(job: JobFacts, cwd: str) -> dict[str, Any]:
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
    return {
        "size": ranks.size(job),
        "above": _together(ranks.above(job)),
        "below": _together(ranks.below(job, cwd)),
        "left_out": f"the {RANKS} slowest ranks are listed" if len(job.ranks) > RANKS else "",
        "rows": rows,
    }


def measured(report: Report) -> Iterator[tuple[str, str]]:
    """How it was measured, and what that cost."""
    run, cost = report.run, report.overhead
    if cost is not None:
        yield "cost", text.watching(cost)
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
