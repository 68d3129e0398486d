"""A comparison of traces as a page for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfdoctor.diagnosis.trace_comparison import Difference, TraceComparison
from perfdoctor.render import kernel_names, text
from perfdoctor.render import page as blocks
from perfdoctor.render.notes import all_worded
from perfdoctor.render.page import Block, Grid, Headline, Page, Paragraph, Section

TOP = 8  # rows of each list
UNCHANGED = 0.001  # of the whole: changes below it are left out of the page
MANIFOLD = 10.0  # from here on "35×" reads better than "+3400%"
US = 1e-6


def page(comparison: TraceComparison, top: int | None = None) -> Page:
    """The whole page, with `top` rows in each list."""
    return blocks.page(_sections(comparison, top or TOP))


def _sections(comparison: TraceComparison, rows: int) -> Iterator[Section]:
    yield _title(comparison)
    yield _headline(comparison)
    if any(change.before_us or change.after_us for change in comparison.times):
        yield [_table("Where the time goes", comparison.times)]
    least_us = UNCHANGED * max((change.before_us for change in comparison.times), default=0.0)
    for heading, changes in (
        ("Device work", comparison.classes),
        ("Kernels", comparison.kernels),
        ("Operators", comparison.ops),
    ):
        moved = [change for change in changes if abs(change.grown_us) >= least_us and change.grown_us]
        if moved:
            yield [_table(f"{heading}, what changed most", moved[:rows])]
        elif changes:
            yield [Paragraph(blocks.quiet(f"{heading}: no change"))]
    if comparison.notes:
        yield blocks.listed("Good to know", all_worded(comparison.notes))


def _title(comparison: TraceComparison) -> list[Block]:
    sides = (
        ("from", comparison.before, comparison.before_steps),
        ("to  ", comparison.after, comparison.after_steps),
    )
    lines = (f"{label}  {_files(files)}{_steps(steps)}" for label, files, steps in sides)
    name = Headline(blocks.strong("perfdoctor trace --compare"), level=1)
    return [name, *(Paragraph(blocks.quiet(line), cut=True) for line in lines)]


def _files(files: Sequence[str]) -> str:
    return files[0] + (f" and {text.count(len(files) - 1, 'more rank')}" if len(files) > 1 else "")


def _steps(steps: float) -> str:
    return f"  {text.count(round(steps), 'step')}" if steps else ""


def _headline(comparison: TraceComparison) -> list[Block]:
    unit = "All times are per step and rank." if comparison.per_step else "All times are totals of a rank."
    reason = "" if comparison.per_step else " Steps are not marked on both sides."
    said = blocks.strong(_whole(comparison), "yellow")
    return [Headline(said, level=2), Paragraph(blocks.quiet(unit + reason))]


def _whole(comparison: TraceComparison) -> str:
    """How the whole has changed."""
    whole = comparison.whole
    if whole is None:  # some are timed by their device, others have none
        return "The whole of the two cannot be compared: not all files hold work of a device"
    if not whole.before_us or not whole.after_us:
        timeless = "one of them covers" if whole.before_us or whole.after_us else "they cover"
        return f"The whole of the two cannot be compared: {timeless} no time"
    what = "A step takes" if comparison.per_step else f"The {whole.name} takes"
    before, after = text.seconds(whole.before_us * US), text.seconds(whole.after_us * US)
    return f"{what} {before} before and {after} after: {text.times(whole.before_us / whole.after_us)} as fast"


def _table(heading: str, changes: Sequence[Difference]) -> Grid:
    rows = [
        (
            kernel_names.kernel(change.name),
            text.seconds(change.before_us * US),
            text.seconds(change.after_us * US),
            blocks.Span(_signed(change.grown_us), colour="red" if change.grown_us > 0 else "green"),
            _relative(change),
            _counts(change),
        )
        for change in changes
        if change.before_us or change.after_us
    ]
    return blocks.table(heading, ["before", "after", "change", "", "count"], rows)


def _signed(us: float) -> str:
    return f"{'+' if us > 0 else '-' if us < 0 else ''}{text.seconds(abs(us) * US)}"


def _relative(change: Difference) -> str:
    if not change.before_us:
        return "new"
    if not change.after_us:
        return "gone"
    ratio = change.after_us / change.before_us
    if ratio >= MANIFOLD:
        return text.times(ratio)
    percent = round(100 * (ratio - 1))
    return f"{percent:+}%" if percent else "0%"


def _counts(change: Difference) -> str:
    before, after = text.figures(change.before_count), text.figures(change.after_count)
    return before if before == after else f"{before} > {after}"
