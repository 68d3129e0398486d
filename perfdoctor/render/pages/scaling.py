"""A scaling curve as the middle of a trial's page: step, samples, speedup, efficiency, what bounds it."""

from __future__ import annotations

from collections.abc import Iterator

from perfdoctor.model.trial import Scaled, Trial, is_narrow
from perfdoctor.render import page as blocks
from perfdoctor.render import text
from perfdoctor.render.notes import worded
from perfdoctor.render.page import Block, Column, Grid, Paragraph, Section
from perfdoctor.render.pages import trial_words

UNKNOWN = "-"


def headline(trial: Trial) -> str:
    """The curve in one sentence, without its full stop."""
    fewest = trial.scaling[0]
    measured = _measured(trial)
    if not measured:
        return "No other number of ranks could be measured"
    best, against = max(measured, key=_likely), text.count(fewest.ranks, "rank")
    gain, share = best.speedup, best.efficiency
    if gain is None or gain.high < 1.0:
        return f"More ranks are no faster than {against}"
    name = text.count(best.ranks, "rank")
    if gain.low <= 1.0:
        between = f"{text.times(gain.low)} to {text.times(gain.high)}"
        return f"{name}: no difference seen, {between} as fast as {against}"
    of = f", {text.percent(share.likely)} of what they could" if share and share.likely < 1.0 else ""
    return f"{name}: {text.times(gain.likely)} as fast as {against}{of}"


def colour(trial: Trial) -> str:
    """Of the headline: green where all ranks pay."""
    known = [point for point in _measured(trial) if point.efficiency is not None]
    return "green" if known and all(point.is_efficient for point in known) else "yellow"


def asked(trial: Trial) -> str:
    """The numbers of ranks as one types them; empty for other trials."""
    return ",".join(str(point.ranks) for point in trial.scaling if not point.expected)


def sections(trial: Trial) -> Iterator[Section]:
    """The table, and a line for each number of ranks that something keeps from scaling."""
    yield _table(trial)
    lines = [f"{_name(point)}: {worded(point.bound)}" for point in trial.scaling if point.bound]
    failed = [
        f"{verdict.variant.name}: {verdict.because}" for verdict in trial.verdicts if verdict.speedup is None
    ]
    if lines or failed:
        yield blocks.listed("What bounds it", [*lines, *failed])


def next_steps(trial: Trial, cwd: str) -> Iterator[tuple[str, str | None]]:
    """What to do with the curve: sentences, and what to type for them."""
    measured = _measured(trial)
    bound = [point for point in measured if not point.is_efficient]
    if bound:
        run = trial_words.moved(trial, f"perfdoctor run {trial_words.scaled(trial, bound[0].ranks)}", cwd)
        yield "to see where its ranks lose it, line by line", run
        yield "to measure the link between ranks by itself", f"perfdoctor net --ranks {bound[0].ranks}"
    wide = [point for point in measured if point.speedup and not is_narrow(point.speedup)]
    if wide:
        ranks = asked(trial)
        again = f"perfdoctor try --ranks {ranks} --rounds 10 --seconds {trial_words.longer_s(trial):.0f}"
        yield (
            "a longer trial makes the ranges narrower",
            trial_words.moved(trial, f"{again} -- {trial_words.command(trial)}", cwd),
        )


def _table(trial: Trial) -> list[Block]:
    """A row for each number of ranks."""
    columns = (
        Column(blocks.strong("ranks"), left=True, wide=True),
        *(Column(name, gives=True) for name in ("a step", "samples/s")),
        *(Column(name) for name in ("speedup", "efficiency")),
    )
    level = next((verdict.confidence for verdict in trial.verdicts if verdict.confidence), None)
    ranges = f" Ranges are {text.percent(level)} confidence intervals." if level else ""
    told = (
        f"Each rank with the batches of one. Speedup is that of the job against "
        f"{text.count(trial.scaling[0].ranks, 'rank')}, efficiency that over the ranks it takes.{ranges}"
    )
    return [Grid(columns, tuple(map(_row, trial.scaling))), Paragraph(blocks.quiet(told))]


def _row(point: Scaled) -> tuple[str, ...]:
    gain, share = point.speedup, point.efficiency
    efficiency = UNKNOWN
    if share is not None:
        spread = f"{text.percent(share.low).removesuffix('%')}–{text.percent(share.high)}"
        efficiency = f"{text.percent(share.likely)} ({spread})"
    return (
        f"{point.ranks}, expected" if point.expected else str(point.ranks),
        UNKNOWN if point.step_s is None else text.seconds(point.step_s),
        UNKNOWN if point.samples_per_s is None else text.figures(point.samples_per_s),
        UNKNOWN if gain is None else trial_words.ratio(gain),
        efficiency,
    )


def _measured(trial: Trial) -> list[Scaled]:
    """Those with a speedup that was measured."""
    return [point for point in trial.scaling if point.speedup is not None and not point.expected]


def _name(point: Scaled) -> str:
    return text.count(point.ranks, "rank") + (", expected" if point.expected else "")


def _likely(point: Scaled) -> float:
    return point.speedup.likely if point.speedup is not None else 0.0
