"""A run that goes on: what it does now beside the verdict so far, as a page or in a few lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfdoctor.model.concluded import Verdict
from perfdoctor.model.live import LiveDevice, LiveHost, LiveNow, LiveRank, LiveState
from perfdoctor.model.measured import Phase
from perfdoctor.model.report import Report
from perfdoctor.render import page as blocks
from perfdoctor.render import text
from perfdoctor.render.page import BarPart, Bars, Block, Headline, Labelled, Levels, Paragraph, Section, Words
from perfdoctor.render.pages import conclusions, rank_table, ranks

STATES = {
    LiveState.STARTING: "starting",
    LiveState.TRAINING: "",  # its figures say so
    LiveState.UNWATCHED: "no longer watched",
    LiveState.LOST: "end not seen",
}
ROLES = {"main": "training", "worker": "loader workers", "other": "helpers"}
LEAST_CORES = 0.05  # fewer are left out
NAMED = 3  # ranks that are silent, by number
SEVERAL = 2  # findings below the first one that are named


def title(now: LiveNow) -> Section:
    """What runs, how far it is, and how fast."""
    name = (blocks.strong("perfdoctor  "), blocks.Span(text.script(now.run), code=True))
    return [Headline(name, blocks.quiet(_state(now)), level=1, cut=True, gives=True)]


def figures(now: LiveNow) -> Iterator[Section]:
    """What the run does now: its last steps by phase, what it uses, each rank."""
    lead = now.leading
    if lead is None:
        yield [Paragraph(_nothing_yet(now))]
    else:
        yield [*_step(lead, now), Bars(_parts(lead), least=text.LEAST_SHOWN)]
    rows = (*_curve(now), *_machine(now))
    if rows:
        yield [Labelled(rows)]
    if len(now.ranks) > 1:
        yield from _each(now)


def verdict(now: LiveNow, report: Report | None, full: bool) -> Iterator[Section]:
    """What it waits for, as far as it can be told by now, and the first advice."""
    if report is None or report.steps is None:
        if now.leading is not None:
            soon = "No verdict yet: it comes within half a minute of the first steps."
            yield [Paragraph(blocks.quiet("No verdict." if now.state.is_over else soon))]
        return
    after = Paragraph(blocks.quiet(f"so far, after {text.count(report.steps.count, 'step')}"))
    lines = conclusions.verdict(report.diagnosis)
    yield [*(lines if full else lines[:1]), *([] if now.state.is_over else [after])]
    for place, found in enumerate(report.findings[: 1 + SEVERAL * full]):
        entry = conclusions.finding(found, report.run.cwd, brief=place > 0)
        yield entry if full else conclusions.finding_with_line(found, report.run.cwd)
    if not report.findings and report.diagnosis.names_bottleneck:
        yield [Paragraph("No known cause fits; the phases show where the time goes.")]


def panel(now: LiveNow, report: Report | None, hint: str = "") -> tuple[list[Block], list[Block]]:
    """All of it in a few lines, each of one row: the heading and figures, and the conclusions."""
    lead = now.leading
    left: list[Block] = [
        Headline((blocks.strong("perfdoctor  "), _progress(now)), blocks.quiet(hint), cut=True)
    ]
    left.append(_line("phases", _phases(lead) if lead is not None else _nothing_yet(now)))
    left.append(_line("machine", text.joined([*map(blocks.plain, _used(now))]) or "not sampled yet"))
    if len(now.ranks) > 1:
        left.append(_line("ranks", _spread(now)))
    return left, [_line("verdict", _sentence(report)), _line("advice", _advice(report))]


def sentence(now: LiveNow, report: Report | None) -> str:
    """All of it in one line without colours."""
    lead = now.leading
    waits = lead.seconds.get(Phase.DATA_WAIT, 0.0) / lead.step_s if lead is not None and lead.step_s else 0.0
    waiting = f"waits for data {text.percent(waits)}" if waits >= text.LEAST_SHOWN else ""
    return text.joined([_progress(now), waiting, blocks.plain(_sentence(report)) if report else ""])


def _progress(now: LiveNow) -> str:
    """How far, how fast, and for how long."""
    return text.joined([*(_pace(now.leading) if now.leading is not None else []), _state(now)])


def _line(label: str, words: Words) -> Block:
    return Paragraph((blocks.quiet(label.ljust(9)), *blocks.spans(words)), cut=True)


def _state(now: LiveNow) -> str:
    told = text.ending(now.run) if now.state is LiveState.ENDED else STATES[now.state]
    return text.joined([told, text.duration(round(now.run.duration_s))])


def _nothing_yet(now: LiveNow) -> str:
    if now.state.is_over:
        return "No step was seen."
    return "No step yet: figures come with the first ones."


def _pace(lead: LiveRank) -> list[str]:
    """How far, how fast."""
    rate = f"{text.figures(1 / lead.step_s)} steps/s" if lead.step_s else ""
    samples = f"{text.figures(lead.samples_per_s)} samples/s" if lead.samples_per_s else ""
    return [f"step {lead.steps:,}", rate, samples]


def _step(lead: LiveRank, now: LiveNow) -> Iterator[Block]:
    of = f" of rank {lead.rank}" if len(now.ranks) > 1 else ""
    yield Headline(
        (
            blocks.strong(f"One step{of}: {text.seconds(lead.step_s)}"),
            blocks.quiet(f"  mean of the last {lead.recent:,}"),
        ),
        blocks.quiet(text.joined(_pace(lead))),
        level=5,
        gives=True,
    )


def _parts(lead: LiveRank) -> tuple[BarPart, ...]:
    return tuple(
        BarPart(_name(phase), text.seconds(value_s), value_s / lead.step_s, conclusions.COLOURS[phase])
        for phase, value_s in _seconds(lead)
    )


def _seconds(lead: LiveRank) -> list[tuple[Phase, float]]:
    return [(phase, lead.seconds.get(phase, 0.0)) for phase in Phase] if lead.step_s else []


def _name(phase: Phase) -> str:
    return phase.value.replace("_", " ")


def _phases(lead: LiveRank) -> Words:
    """The phases in one line, the longest first."""
    shares = [(value_s / lead.step_s, phase) for phase, value_s in _seconds(lead)]
    shown = sorted((entry for entry in shares if entry[0] >= text.LEAST_SHOWN), key=lambda entry: -entry[0])
    words: list[str | blocks.Span] = []
    for share, phase in shown:
        told = f"{_name(phase)} {text.percent(share)}"
        words += [" · " if words else "", blocks.Span(told, colour=conclusions.COLOURS[phase])]
    return tuple(words)


def _curve(now: LiveNow) -> Iterator[tuple[Words, Levels]]:
    """Throughput over the whole run."""
    rates = now.steps_per_s
    if len(rates) > 1 and max(rates) > 0:
        told = f"{text.figures(min(rates))} to {text.figures(max(rates))} a second"
        yield "steps", Levels(rates, max(rates), told)


def _machine(now: LiveNow) -> Iterator[tuple[Words, Words]]:
    if now.host is not None:
        yield from _of_host(now.host)
    for device in now.devices:
        yield f"device {device.index}", text.joined(list(_of_device(device)))


def _of_host(host: LiveHost) -> Iterator[tuple[Words, Words]]:
    if host.cores:
        usable = f" of {host.usable_cores:g}" if host.usable_cores else ""
        others = host.others_cores or 0.0
        # Not their sum: the run may be limited to a few cores of the machine, and others be on the rest.
        beside = f", others {others:.1f}" if others >= LEAST_CORES else ""
        parts = [f"{ROLES[role]} {cores:.1f}" for role, cores in host.cores.items() if cores >= LEAST_CORES]
        yield "cores", text.joined([f"{sum(host.cores.values()):.1f}{usable}{beside}", *parts])
    memory = host.memory
    if memory is not None and memory.peak_rss_bytes:
        used = memory.most_bytes or memory.peak_rss_bytes
        total = f" of {text.size(memory.total_bytes)}" if memory.total_bytes else ""
        left = f"{text.size(memory.available_bytes)} left" if memory.available_bytes else ""
        yield "memory", text.joined([f"{text.size(used)}{total}", left])


def _of_device(device: LiveDevice) -> Iterator[str]:
    if device.busy is not None:
        yield f"busy {text.percent(device.busy)}"
    if device.used_bytes is not None and device.total_bytes:
        yield f"{text.size(device.used_bytes)} of {text.size(device.total_bytes)}"
    if device.power_w:
        yield f"{device.power_w:.0f} W"


def _used(now: LiveNow) -> Iterator[Words]:
    """The machine in one line."""
    for label, words in _machine(now):
        first, *rest = blocks.plain(words).split(" · ")
        about = text.joined([first, *rest]) if blocks.plain(label).startswith("device") else first
        yield f"{blocks.plain(label)} {about}"


def _each(now: LiveNow) -> Iterator[Section]:
    """Each rank's step, slowest first."""
    rows = [_row(rank) for rank in now.ranks]
    yield [rank_table.heading(text.count(len(rows), "rank"), len(rows), "gradient syncs")]
    yield from rank_table.shown(rows)


def _row(rank: LiveRank) -> rank_table.Row:
    kinds = {**ranks.PHASES, Phase.GRAD_SYNC: rank_table.SYNCING}
    return rank_table.Row(
        name=str(rank.rank),
        node=rank.node,
        step_s=rank.step_s,
        seconds={kinds[phase]: rank.seconds[phase] for phase in Phase if phase in rank.seconds},
        steps=rank.steps,
        mark="" if rank.silent_s is None else f"silent for {text.duration(round(rank.silent_s))}",
        remark="" if rank.step_s else "no step yet",
    )


def _spread(now: LiveNow) -> str:
    """The ranks in one line: who is silent, who takes longest by itself."""
    trained = [rank for rank in now.ranks if rank.step_s]
    silent = [rank for rank in now.ranks if rank.silent_s is not None]
    parts = [_silent(silent)] if silent else []
    if len(trained) > 1:
        own = {rank.rank: rank.step_s - rank.seconds.get(Phase.GRAD_SYNC, 0.0) for rank in trained}
        slowest = max(own, key=lambda rank: own[rank])
        most, least = text.seconds(own[slowest]), text.seconds(min(own.values()))
        parts.append(f"rank {slowest} slowest: {most} without gradient syncs, fastest {least}")
    waiting = len(now.ranks) - len(trained)
    parts += [f"{waiting} without a step"] if waiting else []
    return text.joined([*parts, text.count(len(now.ranks), "rank")])


def _silent(silent: Sequence[LiveRank]) -> str:
    names = ", ".join(str(rank.rank) for rank in silent[:NAMED])
    more = f" and {len(silent) - NAMED} more" if len(silent) > NAMED else ""
    longest_s = max(rank.silent_s or 0.0 for rank in silent)
    return f"no step for {text.duration(round(longest_s))}: rank {names}{more}"


def _sentence(report: Report | None) -> Words:
    if report is None or report.steps is None:
        return blocks.quiet("not yet")
    diagnosis = report.diagnosis
    colour = conclusions.VERDICT_COLOURS.get(diagnosis.verdict, "yellow")
    sentence = blocks.strong(text.headline(diagnosis), colour)
    after = f"after {text.count(report.steps.count, 'step')}"
    if diagnosis.verdict is Verdict.INCONCLUSIVE:
        return sentence, text.joined([f" {after}", *diagnosis.because[:1]])
    return sentence, f" · confidence {diagnosis.confidence.value} · {after}"


def _advice(report: Report | None) -> Words:
    if report is None or not report.findings:
        return blocks.quiet("none so far")
    found = report.findings[0]
    worth = blocks.plain(conclusions.worth(found)).partition(" (")[0]  # its range stands in the whole view
    place = f" · {text.place(found.advice.at[0], report.run.cwd)}" if found.advice.at else ""
    return f"{found.title}: ", blocks.strong(worth, "green"), place
