"""The findings as cards: evidence, source, the change as a diff, what is predicted and what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfdoctor.model.concluded import Advice, Finding, Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.model.timeline import Excerpt
from perfdoctor.model.trial import Trial, VariantResult
from perfdoctor.render import page as blocks
from perfdoctor.render import text
from perfdoctor.render.html import charts
from perfdoctor.render.html.diff import DiffLine, diff
from perfdoctor.render.pages import conclusions, trial_words

PLACES = 3  # of a finding, with the source around them

Excerpts = Mapping[tuple[str, int], Excerpt]


@dataclass(frozen=True)
class SourceLine:
    """A line of a source file as it is shown; the one that is meant is marked."""

    number: int
    text: str
    is_meant: bool


@dataclass(frozen=True)
class RangeRow:
    """A range of speedups: what it is, its bar, and the same in words."""

    name: str  # predicted or measured
    bar: charts.GainBar
    told: str


@dataclass(frozen=True)
class Card:
    """A finding, as the page shows it."""

    number: int
    title: str
    worth: str
    evidence: tuple[str, ...]
    places: tuple[tuple[str, tuple[SourceLine, ...]], ...]
    code: tuple[str, ...]
    diff: tuple[DiffLine, ...]
    command: str
    caution: str
    checked: str
    tip: str
    ranges: tuple[RangeRow, ...]  # predicted, and measured where it was tried
    tried: str  # what came out of that, in words


def cards(
    findings: Sequence[Finding], cwd: str, excerpts: Excerpts, trials: Sequence[Trial], again: str = ""
) -> tuple[list[Card], tuple[str, str]]:
    """The cards, and the ends of the axis that their ranges share.

    `again`: what `perfdoctor try` needs beside a tweak to run this command again.
    """
    found = [(finding, _tried(finding.advice, trials)) for finding in findings]
    gains = [finding.gain for finding, _ in found if finding.advice.change]
    gains += [tried.speedup for _, tried in found if tried is not None and tried.speedup is not None]
    ends = charts.gain_ends(gains)
    shown = [_card(finding, tried, cwd, excerpts, ends, again) for finding, tried in found]
    return shown, (f"{ends[0]:.3g}×", f"{ends[1]:.3g}×")


def _tried(advice: Advice, trials: Sequence[Trial]) -> VariantResult | None:
    """What the newest trial of just this change measured."""
    if advice.tweak is None:
        return None
    for trial in trials:
        for verdict in trial.verdicts:
            if verdict.variant.name == advice.tweak and not verdict.over and verdict.speedup is not None:
                return verdict
    return None


def _card(
    found: Finding,
    tried: VariantResult | None,
    cwd: str,
    excerpts: Excerpts,
    ends: tuple[float, float],
    again: str,
) -> Card:
    advice = found.advice
    ranges = [_range("predicted", found.gain, ends, text.gain(found.gain))] if advice.change else []
    if tried is not None and tried.speedup is not None:
        ranges.append(_range("measured", tried.speedup, ends, trial_words.ratio(tried.speedup)))
    code = advice.code or ""
    change = next(filter(None, (_diff(code, at, excerpts) for at in advice.at)), ())
    return Card(
        found.rank,
        found.title,
        blocks.plain(conclusions.worth(found)),
        advice.because,
        tuple((text.place(at, cwd), _source(at, excerpts)) for at in advice.at[:PLACES]),
        tuple(code.split("\n")) if code and not change else (),
        change,
        f"perfdoctor try {advice.tweak}{again}" if advice.tweak else "",
        "" if advice.same_result else conclusions.CHANGES_RESULT,
        found.checked.value,
        f"perfdoctor tips {found.id}",
        tuple(ranges),
        trial_words.told(tried) if tried is not None else "",
    )


def _range(name: str, gain: Gain, ends: tuple[float, float], told: str) -> RangeRow:
    return RangeRow(name, charts.gain_bar(gain, ends), told)


def _known(at: Location, excerpts: Excerpts) -> Excerpt | None:
    """The lines around a place; only itself where the file is not what it was."""
    return excerpts.get((at.file, at.line)) or (Excerpt(at.line, (at.text,)) if at.text else None)


def _diff(code: str, at: Location, excerpts: Excerpts) -> tuple[DiffLine, ...]:
    known = _known(at, excerpts)
    if not code or known is None:
        return ()
    return diff(code, [line.expandtabs(4) for line in known.lines[at.line - known.first :]])


def _source(at: Location, excerpts: Excerpts) -> tuple[SourceLine, ...]:
    """The line and those around it, without the indentation that all of them have."""
    known = _known(at, excerpts)
    if known is None:
        return ()
    shown = [line.expandtabs(4).rstrip() for line in known.lines]
    margin = min((len(line) - len(line.lstrip()) for line in shown if line), default=0)
    return tuple(
        SourceLine(number, line[margin:], number == at.line)
        for number, line in enumerate(shown, start=known.first)
    )
