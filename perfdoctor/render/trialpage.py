"""A Trial as a page for people: what came out, what was measured, where it was applied, what to type next."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perfdoctor.render import parts, trialscale, trialwords, words
from perfdoctor.render.trialjson import Summary, summary
from perfdoctor.render.words import harmless
from perfdoctor.trial import Execution, Outcome, Place, Trial, Verdict

UNKNOWN = "-"
WITH_RANGES = 90  # columns from which the table holds the ranges too
PLACES = 4  # lines shown of where a variant was applied, and of where it was not
BROKEN = (Outcome.FAILED, Outcome.OUT_OF_MEMORY)
COLOURS = {
    Outcome.FASTER: "green",
    Outcome.SLOWER: "red",
    Outcome.CHANGED: "yellow",
    Outcome.FAILED: "red",
    Outcome.OUT_OF_MEMORY: "red",
}
CALM = "blue"  # for outcomes that are neither good nor bad news


def page(trial: Trial, width: int = 80, colour: bool = False, cwd: str = "") -> str:
    """The whole page as text, at most `width` columns wide; files are named as seen from `cwd`."""
    columns = parts.columns(width)
    return parts.spaced(_blocks(trial, columns - 2 * parts.INDENT, cwd), columns, colour)


def listing(trials: Iterable[Trial], width: int = 80) -> str:
    """Earlier trials, a block of lines each; nothing where there are none."""
    blocks = [_listed(trial) for trial in trials]
    if not blocks:
        return ""
    heading = Text("Earlier ones: perfdoctor report --trials ID", style="bold")
    return parts.spaced([Group(heading, *blocks)], parts.columns(width), False)


def _listed(trial: Trial) -> RenderableType:
    """A trial in a few lines: its id, and the verdicts."""
    verdicts = (f"{verdict.variant.name}: {trialwords.told(verdict)}" for verdict in trial.verdicts)
    name = harmless(os.path.basename(trial.path))
    return Group(parts.one_line(Text(name, style=parts.QUIET)), *map(parts.bullet, verdicts))


def _blocks(trial: Trial, columns: int, cwd: str) -> Iterator[RenderableType]:
    yield _title(trial)
    if trial.scaling:
        yield Text(harmless(trialscale.headline(trial)), style=f"bold {trialscale.colour(trial)}")
        yield from trialscale.blocks(trial)
        steps = list(trialscale.next_steps(trial, cwd))
    else:
        yield from _compared(trial, columns, cwd)
        steps = list(trialwords.next_steps(trial, cwd))
    if steps:
        yield _next(steps)
    if trial.notes:
        yield parts.listed("Good to know", [" ".join(note.split()) for note in trial.notes])
    kept = f"Kept in {harmless(words.path(trial.path, cwd))}"
    again = f"perfdoctor report --trials {harmless(shlex.quote(words.path(trial.path, cwd)))}"
    yield Text(f"{kept}\nShown again by: {again}", style=parts.QUIET, overflow="fold")


def _compared(trial: Trial, columns: int, cwd: str) -> Iterator[RenderableType]:
    """The verdicts: what was measured of each variant, and what is known of it."""
    yield _headline(trial)
    if trial.originals:
        yield _table(trial, columns)
    if len(trial.verdicts) == 1:  # its verdict is the headline
        yield _facts(trial, trial.verdicts[0], cwd)
    else:
        for verdict in trial.verdicts:
            yield _variant(trial, verdict, cwd)


def _title(trial: Trial) -> RenderableType:
    ranks = trialscale.asked(trial)
    verb = f"perfdoctor try --ranks {ranks}  " if ranks else "perfdoctor try  "
    name = Text.assemble((verb, "bold"), harmless(trialwords.command(trial)))
    facts = [
        "interrupted" if trial.interrupted else "",
        f"{words.count(trial.rounds, 'round')}{', enough to tell' if trial.stopped_early else ''}",
        f"{words.count(trial.steps, 'step')} each, after {trial.warm_up_steps:,} of warm-up",
        words.duration(trial.seconds),
    ]
    return Group(parts.one_line(name), Text(words.joined(facts), style=parts.QUIET))


def _headline(trial: Trial) -> RenderableType:
    only = trial.verdicts[0] if len(trial.verdicts) == 1 else None
    deciding = trialwords.winner(trial) or only
    style = f"bold {COLOURS.get(deciding.outcome, CALM) if deciding else CALM}"
    sentence = Text(harmless(trialwords.headline(trial)), style=style)
    return Group(sentence, parts.bullet(only.because, parts.QUIET)) if only else sentence


def _table(trial: Trial, columns: int) -> RenderableType:
    """A row for the script as it is, and one for each variant."""
    per_sample = any(verdict.per == "sample" for verdict in trial.verdicts)
    all_of = [*trial.originals, *(own for verdict in trial.verdicts for own in verdict.executions)]
    on_device = any(execution.device_bytes for execution in all_of)
    headings = ("samples/s" if per_sample else "a step", "device" if on_device else "memory", "speedup", "")
    table = parts.table("Measured", *headings)
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    table.columns[-1].justify = "left"
    table.add_row("original", *_figures(summary(trial.originals), per_sample, on_device), "", "")
    for verdict in trial.verdicts:
        gain, colour = verdict.speedup, COLOURS.get(verdict.outcome, CALM)
        shown = UNKNOWN if gain is None else words.times(gain.likely)
        if gain is not None and columns >= WITH_RANGES:
            shown = trialwords.ratio(gain)
        if verdict.over:
            shown = f"on top: {shown}"
        figures = _figures(summary(verdict.executions), per_sample, on_device)
        name = Text(harmless(verdict.variant.name))
        table.add_row(name, *figures, shown, Text(verdict.outcome.value, style=colour))
    return Group(table, Text(_legend(trial), style=parts.QUIET))


def _figures(found: Summary, per_sample: bool, on_device: bool) -> tuple[str, str]:
    """A step and its memory, in words."""
    memory = found.device_bytes if on_device else found.host_bytes
    if per_sample:
        speed = UNKNOWN if found.samples_per_s is None else words.figures(found.samples_per_s)
    else:
        speed = UNKNOWN if found.step_s is None else words.seconds(found.step_s)
    return speed, UNKNOWN if memory is None else words.size(memory)


def _legend(trial: Trial) -> str:
    level = next((verdict.confidence for verdict in trial.verdicts if verdict.confidence), None)
    ranges = f" Ranges hold the true speedup with {words.percent(level)} confidence." if level else ""
    return f"Means over the rounds; memory is the most that was taken.{ranges}"


def _variant(trial: Trial, verdict: Verdict, cwd: str) -> RenderableType:
    """One variant of several: its verdict, and what is known of it."""
    heading = parts.two_columns()
    heading.add_row(
        Text(harmless(verdict.variant.name), style="bold"),
        Text(trialwords.told(verdict), style=f"bold {COLOURS.get(verdict.outcome, CALM)}"),
    )
    because = parts.bullet(verdict.because, parts.QUIET)
    return Group(heading, Padding(Group(because, _facts(trial, verdict, cwd)), (0, 0, 0, 3)))


def _facts(trial: Trial, verdict: Verdict, cwd: str) -> RenderableType:
    """A line for each fact of one variant."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True, style=parts.QUIET)
    table.add_column(ratio=1, overflow="fold")
    for label, text in _labelled(trial, verdict, cwd):
        table.add_row(label, Text(harmless(text)))
    return table


def _labelled(trial: Trial, verdict: Verdict, cwd: str) -> Iterator[tuple[str, str]]:
    metric = "{:g} -> {:g}, as printed last".format(*verdict.metric) if verdict.metric else None
    for label, text in (
        ("predicted", trialwords.prediction(verdict)),
        ("result", trialwords.agreement(verdict)),
        ("metric", metric),
        ("warm-up", trialwords.warm_up(trial, verdict)),
        ("memory", _memory(trial.originals, verdict.executions)),
    ):
        if text:
            yield label, text
    yield from _places("applied", trialwords.applied(verdict), cwd)
    yield from _places("left alone", trialwords.left_alone(verdict), cwd)
    if verdict.outcome in BROKEN and verdict.executions:
        yield "its output", words.path(verdict.executions[-1].log, cwd)


def _memory(originals: Sequence[Execution], executions: Sequence[Execution]) -> str | None:
    """What host and device memory became, where both are known: the table has room for one."""
    before, after = summary(originals), summary(executions)
    both = ((before.host_bytes, after.host_bytes), (before.device_bytes, after.device_bytes))
    shown = [f"{words.size(was)} -> {words.size(now)}" for was, now in both if was and now]
    return f"host {shown[0]}, device {shown[1]}" if len(shown) == len(both) else None


def _places(label: str, places: Sequence[Place], cwd: str) -> Iterator[tuple[str, str]]:
    """A line for each place, the label before the first."""
    shown = [trialwords.change(place, cwd) for place in places[:PLACES]]
    if len(places) > PLACES:
        shown.append(f"and in {words.count(len(places) - PLACES, 'more place')}")
    for index, text in enumerate(shown):
        yield ("" if index else label), text


def _next(steps: Sequence[tuple[str, str | None]]) -> RenderableType:
    lines: list[RenderableType] = [Text("What to do next", style="bold")]
    for sentence, typed in steps:
        lines.append(parts.bullet(sentence if typed is None else f"{sentence}:"))
        if typed is not None:
            lines.append(Padding(Text(harmless(typed), style="bold", overflow="fold"), (0, 0, 0, 2)))
    return Group(*lines)
