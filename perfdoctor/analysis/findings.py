"""The catalogue looks at the facts: tips become findings, ranked, their gains within what is possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfdoctor.analysis.diagnosis import Blame, too_little
from perfdoctor.analysis.facts import Facts
from perfdoctor.catalogue import Tip
from perfdoctor.model import Advice, Finding, Gain, NotJudged, StepFacts

SMALL = 1.02  # a likely speedup below this drowns in the noise of any trial: a note, not a finding


@dataclass(frozen=True)
class Judgement:
    """What the catalogue has to say about a run."""

    findings: tuple[Finding, ...] = ()
    not_judged: tuple[NotJudged, ...] = ()
    notes: tuple[str, ...] = ()  # on gains too small to rank


def judge(tips: Sequence[Tip], facts: Facts, blamed: Blame | None) -> Judgement:
    """Ask every tip that has what it needs.

    A tip that raises is a defect of ours and is not hidden: the run's raw files are kept, and the report can
    be made again by a mended perfdoctor.
    """
    advised: list[tuple[Tip, Advice]] = []
    not_judged = []
    for tip in tips:
        why_not = _why_not(tip, facts, blamed)
        if why_not:
            not_judged.append(NotJudged(tip.id, why_not))
        groups = {name: facts.get(kind) for name, kind in tip.needs.items()}
        if why_not or blamed is None or None in groups.values():
            continue  # neither there nor missing: no loader, no checkpoint, nothing to advise on
        advice = tip.judge(**groups)
        if advice is not None:
            advised.append((tip, _bounded(advice, blamed.ceilings[advice.bottleneck or tip.bottleneck])))
    advised.sort(key=lambda pair: (-pair[1].gain.likely, pair[0].id))
    worthwhile = [(tip, advice) for tip, advice in advised if advice.gain.likely >= SMALL]
    return Judgement(
        tuple(
            Finding(tip.id, rank, advice.bottleneck or tip.bottleneck, tip.title, advice)
            for rank, (tip, advice) in enumerate(worthwhile, 1)
        ),
        tuple(not_judged),
        tuple(
            f"{tip.title}: a small gain at most ({advice.gain.likely:.2f}x likely)"
            for tip, advice in advised
            if 1.0 < advice.gain.likely < SMALL
        ),
    )


def _why_not(tip: Tip, facts: Facts, blamed: Blame | None) -> str | None:
    """Why a tip cannot be judged, or None."""
    unmeasured = dict.fromkeys(facts.missing[kind] for kind in tip.needs.values() if kind in facts.missing)
    if unmeasured:
        return "; ".join(unmeasured)
    return "nothing was timed" if blamed is None else too_little(facts.get(StepFacts))


def _bounded(advice: Advice, ceiling: float) -> Advice:
    """No gain is above the ceiling of its class, and low <= likely <= high."""
    likely = min(advice.gain.likely, ceiling)
    high = min(max(advice.gain.high, likely), ceiling)
    return replace(advice, gain=Gain(min(advice.gain.low, likely), likely, high))
