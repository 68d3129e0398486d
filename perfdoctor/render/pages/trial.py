"""A Trial as a page for people: what came out, what was measured, where it was applied, what to type next."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence

from perfdoctor.model.trial import ExecutionSummary, Outcome, Place, Trial, VariantResult
from perfdoctor.render import page as blocks
from perfdoctor.render import text
from perfdoctor.render.notes import all_worded
from perfdoctor.render.page import (
    Block,
    Cell,
    Column,
    Grid,
    Headline,
    Indented,
    Labelled,
    Page,
    Paragraph,
    Section,
)
from perfdoctor.render.pages import scaling, trial_words

UNKNOWN = "-"
WITH_RANGES = 90  # columns from which the table holds the ranges too
PLACES = 4  # lines shown of where a variant was applied, and of where it was not
BROKEN = (Outcome.FAILED, Outcome.OUT_OF_MEMORY)
COLOURS = {
    Outcome.FASTER: "green",
    Outcome.SLOWER: "red",
    Outcome.CHANGED: "yellow",
    Outcome.WITHDRAWN: "yellow",
    Outcome.FAILED: "red",
    Outcome.OUT_OF_MEMORY: "red",
}
CALM = "blue"  # for outcomes that are neither good nor bad news


def page(
    trial: Trial, cwd: str = "", earlier: Iterable[Trial] = (), unread: int = 0, out: str | None = None
) -> Page:
    """The whole page, with the trials before it below; files are named as seen from `cwd`.

    `unread`: how many other trials cannot be read; `out`: the folder that they are kept in, if it was given.
    """
    return blocks.page(_sections(trial, cwd, earlier, unread, out))


def _sections(
    trial: Trial, cwd: str, earlier: Iterable[Trial], unread: int, out: str | None
) -> Iterator[Section]:
    yield _title(trial)
    if trial.scaling:
        yield [Headline(blocks.strong(scaling.headline(trial), scaling.colour(trial)), level=2)]
        yield from scaling.sections(trial)
        steps = list(scaling.next_steps(trial, cwd))
    else:
        yield from _compared(trial, cwd)
        steps = list(trial_words.next_steps(trial, cwd))
    yield _next(steps)
    if trial.notes:
        yield blocks.listed("Good to know", [" ".join(note.split()) for note in all_worded(trial.notes)])
    path = text.path(trial.path, cwd)
    again = blocks.to_type("Show again", f"perfdoctor report --trials {shlex.quote(path)}")
    yield [Paragraph(blocks.quiet(f"Kept in {path}")), *again]
    yield _listed(earlier, out)
    if unread:
        left_out = f"{text.count(unread, 'trial')} left out: trial.json cannot be read"
        yield [Paragraph(blocks.quiet(left_out))]


def _listed(trials: Iterable[Trial], out: str | None) -> list[Block]:
    """Earlier trials in a few lines: their ids, and the verdicts."""
    lines: list[Block] = []
    for trial in trials:
        lines.append(Paragraph(blocks.quiet(os.path.basename(trial.path)), cut=True))
        told = (f"{verdict.variant.name}: {trial_words.told(verdict)}" for verdict in trial.verdicts)
        lines.append(blocks.bullets(told))
    place = f" --out {shlex.quote(out)}" if out else ""
    heading = Headline(blocks.strong(f"Earlier ones: perfdoctor report --trials{place} ID"))
    return [heading, *lines] if lines else []


def _compared(trial: Trial, cwd: str) -> Iterator[Section]:
    """The verdicts: what was measured of each variant, and what is known of it."""
    yield _headline(trial)
    if trial.originals:
        yield _measured(trial)
    if len(trial.verdicts) == 1:  # its verdict is the headline
        yield _facts(trial, trial.verdicts[0], cwd)
    else:
        for verdict in trial.verdicts:
            yield _variant(trial, verdict, cwd)


def _title(trial: Trial) -> list[Block]:
    ranks = scaling.asked(trial)
    verb = f"perfdoctor try --ranks {ranks}  " if ranks else "perfdoctor try  "
    name = (blocks.strong(verb), blocks.Span(trial_words.command(trial), code=True))
    facts = [
        "interrupted" if trial.interrupted else "",
        f"{text.count(trial.rounds, 'round')}{', enough to tell' if trial.stopped_early else ''}",
        f"{text.count(trial.steps, 'step')} each, after {trial.warm_up_steps:,} of warm-up",
        text.duration(trial.seconds),
    ]
    return [Headline(name, level=1, cut=True), Paragraph(blocks.quiet(text.joined(facts)))]


def _headline(trial: Trial) -> list[Block]:
    only = trial.verdicts[0] if len(trial.verdicts) == 1 else None
    deciding = trial.winner or only
    colour = COLOURS.get(deciding.outcome, CALM) if deciding else CALM
    because = [blocks.bullets([only.because], quietly=True)] if only else []
    return [Headline(blocks.strong(trial_words.headline(trial), colour), level=2), *because]


def _measured(trial: Trial) -> list[Block]:
    """A row for the script as it is, and one for each variant."""
    per_sample = any(verdict.per == "sample" for verdict in trial.verdicts)
    all_of = [*trial.originals, *(own for verdict in trial.verdicts for own in verdict.executions)]
    on_device = any(execution.device_bytes for execution in all_of)
    columns = (
        Column(blocks.strong("Measured"), left=True, wide=True, fold=True),
        Column("samples/s" if per_sample else "a step", gives=True),
        Column("device" if on_device else "memory", gives=True),
        Column("speedup", until=WITH_RANGES),
        Column("speedup", room=WITH_RANGES),
        Column(left=True),
    )
    rows: list[tuple[Cell, ...]] = [
        ("original", *_figures(trial.measured, per_sample, on_device), "", "", "")
    ]
    for verdict in trial.verdicts:
        outcome = blocks.Span(verdict.outcome.value, colour=COLOURS.get(verdict.outcome, CALM))
        figures = _figures(verdict.measured, per_sample, on_device)
        rows.append((verdict.variant.name, *figures, *_speedups(verdict), outcome))
    return [Grid(columns, tuple(rows)), Paragraph(blocks.quiet(_legend(trial)))]


def _speedups(verdict: VariantResult) -> list[str]:
    """A speedup alone, and with its range."""
    gain = verdict.speedup
    shown = [UNKNOWN, UNKNOWN] if gain is None else [text.times(gain.likely), trial_words.ratio(gain)]
    return [f"on top: {speedup}" if verdict.over else speedup for speedup in shown]


def _figures(found: ExecutionSummary, per_sample: bool, on_device: bool) -> tuple[str, str]:
    """A step and its memory, in words."""
    memory = found.device_bytes if on_device else found.host_bytes
    if per_sample:
        speed = UNKNOWN if found.samples_per_s is None else text.figures(found.samples_per_s)
    else:
        speed = UNKNOWN if found.step_s is None else text.seconds(found.step_s)
    return speed, UNKNOWN if memory is None else text.size(memory)


def _legend(trial: Trial) -> str:
    level = next((verdict.confidence for verdict in trial.verdicts if verdict.confidence), None)
    ranges = f" Ranges are {text.percent(level)} confidence intervals of the speedup." if level else ""
    return f"Means over the rounds; memory is the most that was taken.{ranges}"


def _variant(trial: Trial, verdict: VariantResult, cwd: str) -> list[Block]:
    """One variant of several: its verdict, and what is known of it."""
    told = blocks.strong(trial_words.told(verdict), COLOURS.get(verdict.outcome, CALM))
    because = blocks.bullets([verdict.because], quietly=True)
    heading = Headline(blocks.strong(verdict.variant.name), told, level=4)
    return [heading, Indented((because, *_facts(trial, verdict, cwd)))]


def _facts(trial: Trial, verdict: VariantResult, cwd: str) -> list[Block]:
    """A line for each fact of one variant."""
    facts = tuple(_labelled(trial, verdict, cwd))
    return [Labelled(facts)] if facts else []


def _labelled(trial: Trial, verdict: VariantResult, cwd: str) -> Iterator[tuple[str, str]]:
    metric = "{:g} -> {:g}, as printed last".format(*verdict.metric) if verdict.metric else None
    for label, told in (
        ("predicted", trial_words.prediction(verdict)),
        ("result", trial_words.agreement(verdict)),
        ("metric", metric),
        ("warm-up", trial_words.warm_up(trial, verdict)),
        ("memory", _memory(trial.measured, verdict.measured)),
    ):
        if told:
            yield label, told
    yield from _places("applied", trial_words.applied(verdict), cwd)
    yield from _places("withdrawn", trial_words.withdrawn(verdict), cwd)
    yield from _places("left alone", trial_words.left_alone(verdict), cwd)
    if verdict.outcome in BROKEN and verdict.executions:
        yield "its output", text.path(verdict.executions[-1].log, cwd)


def _memory(before: ExecutionSummary, after: ExecutionSummary) -> str | None:
    """What host and device memory became, where both are known: the table has room for one."""
    both = ((before.host_bytes, after.host_bytes), (before.device_bytes, after.device_bytes))
    shown = [f"{text.size(was)} -> {text.size(now)}" for was, now in both if was and now]
    return f"host {shown[0]}, device {shown[1]}" if len(shown) == len(both) else None


def _places(label: str, places: Sequence[Place], cwd: str) -> Iterator[tuple[str, str]]:
    """A line for each place, the label before the first."""
    shown = [trial_words.change(place, cwd) for place in places[:PLACES]]
    if len(places) > PLACES:
        shown.append(f"and in {text.count(len(places) - PLACES, 'more place')}")
    for index, place in enumerate(shown):
        yield ("" if index else label), place


def _next(steps: Sequence[tuple[str, str | None]]) -> list[Block]:
    lines: list[Block] = [Headline(blocks.strong("What to do next"))] if steps else []
    for sentence, typed in steps:
        lines.append(blocks.bullets([sentence if typed is None else f"{sentence}:"]))
        if typed is not None:
            lines.append(Indented((blocks.Code(typed, "shell"),), columns=2))
    return lines
