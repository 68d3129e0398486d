"""A Comparison of traces as a page for people, and as the JSON document `perfdoctor.trace-comparison/1`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from perfdoctor.analysis.tracediff import Change, Comparison
from perfdoctor.render import json as public
from perfdoctor.render import names, parts, words
from perfdoctor.render.words import harmless

SCHEMA = "perfdoctor.trace-comparison/1"
TOP = 8  # rows of each list
UNCHANGED = 0.001  # of the whole: changes below it are left out of the page
MANIFOLD = 10.0  # from here on "35×" reads better than "+3400%"
US = 1e-6

Json = dict[str, Any]


def dumps(comparison: Comparison) -> bytes:
    """The document as indented UTF-8 text that ends with a newline."""
    return public.text(document(comparison))


def document(comparison: Comparison) -> Json:
    """The document as plain dictionaries and lists; times are microseconds, `grown_us` = after - before."""
    lists = {name: getattr(comparison, name) for name in ("times", "classes", "kernels", "ops")}
    return {
        "schema": SCHEMA,
        "before": {"files": list(comparison.before), "steps": comparison.before_steps},
        "after": {"files": list(comparison.after), "steps": comparison.after_steps},
        "per_step": comparison.per_step,
        **{
            name: [asdict(change) | {"grown_us": change.grown_us} for change in changes]
            for name, changes in lists.items()
        },
    }


def page(comparison: Comparison, width: int = 80, colour: bool = False, top: int | None = None) -> str:
    """The whole page as text, at most `width` columns wide, with `top` rows in each list."""
    return parts.spaced(_blocks(comparison, top or TOP), parts.columns(width), colour)


def _blocks(comparison: Comparison, rows: int) -> Iterator[RenderableType]:
    yield _title(comparison)
    yield _headline(comparison)
    yield _table("Where the time goes", comparison.times)
    least_us = UNCHANGED * max((change.before_us for change in comparison.times), default=0.0)
    for heading, changes in (
        ("Device work", comparison.classes),
        ("Kernels", comparison.kernels),
        ("Operators", comparison.ops),
    ):
        moved = [change for change in changes if abs(change.grown_us) >= least_us and change.grown_us]
        if moved:
            yield _table(f"{heading}, what changed most", moved[:rows])
        elif changes:
            yield Text(f"{heading}: no change", style=parts.QUIET)


def _title(comparison: Comparison) -> RenderableType:
    name = Text("perfdoctor trace --compare", style="bold")
    sides = [
        parts.one_line(Text(f"{label}  {_files(files)}{_steps(steps)}", style=parts.QUIET))
        for label, files, steps in (
            ("from", comparison.before, comparison.before_steps),
            ("to  ", comparison.after, comparison.after_steps),
        )
    ]
    return Group(name, *sides)


def _files(files: Sequence[str]) -> str:
    return harmless(files[0]) + (f" and {len(files) - 1} more ranks" if len(files) > 1 else "")


def _steps(steps: float) -> str:
    return f"  {words.count(round(steps), 'step')}" if steps else ""


def _headline(comparison: Comparison) -> RenderableType:
    whole = comparison.times[0]
    what = "A step takes" if comparison.per_step else f"The {whole.name} takes"
    before, after = words.seconds(whole.before_us * US), words.seconds(whole.after_us * US)
    said = f"{what} {before} before and {after} after"
    if whole.before_us > 0 and whole.after_us > 0:
        said += f": {words.times(whole.before_us / whole.after_us)} as fast"
    else:  # one side is timed by its device, the other has none
        said = "The whole of the two cannot be compared: only one of them holds work of a device"
    unit = "All times are per step and rank." if comparison.per_step else "All times are totals of a rank."
    reason = "" if comparison.per_step else " Steps are not marked on both sides."
    return Group(Text(said, style="bold yellow"), Text(unit + reason, style=parts.QUIET))


def _table(heading: str, changes: Sequence[Change]) -> Table:
    table = parts.table(heading, "before", "after", "change", "", "count")
    for change in changes:
        if not (change.before_us or change.after_us):
            continue
        table.add_row(
            harmless(names.kernel(change.name)),
            words.seconds(change.before_us * US),
            words.seconds(change.after_us * US),
            Text(_signed(change.grown_us), style="red" if change.grown_us > 0 else "green"),
            _relative(change),
            _counts(change),
        )
    return table


def _signed(us: float) -> str:
    return f"{'+' if us > 0 else '-' if us < 0 else ''}{words.seconds(abs(us) * US)}"


def _relative(change: Change) -> str:
    if not change.before_us:
        return "new"
    if not change.after_us:
        return "gone"
    ratio = change.after_us / change.before_us
    return f"{ratio - 1:+.0%}" if ratio < MANIFOLD else words.times(ratio)


def _counts(change: Change) -> str:
    before, after = words.figures(change.before_count), words.figures(change.after_count)
    return before if before == after else f"{before} > {after}"
