"""What is concluded, as blocks that several pages share: the verdict, findings, what was not judged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from perfdoctor.model.concluded import Advice, Diagnosis, Finding, Gain, NotJudged, Verdict
from perfdoctor.model.measured import Location, Phase
from perfdoctor.render import page as blocks
from perfdoctor.render import text
from perfdoctor.render.page import Block, Headline, Indented, Labelled, Paragraph, Section, Words

PLACES = 3  # source lines shown for one finding
ELSEWHERE = 0.05  # of the time, charged to another class than its phase suggests: less is no news

COLOURS = {
    Phase.DATA_WAIT: "yellow",
    Phase.HOST_TO_DEVICE: "magenta",
    Phase.FORWARD: "green",
    Phase.BACKWARD: "green",
    Phase.GRAD_SYNC: "blue",
    Phase.OPTIMIZER: "green",
    Phase.VALIDATION: "cyan",
    Phase.CHECKPOINT: "red",
    Phase.OTHER: "red",
}
VERDICT_COLOURS = {Verdict.HEALTHY: "green", Verdict.INCONCLUSIVE: "blue"}

IF_FREE = {
    Verdict.DATA: "If batches were always ready",
    Verdict.TRANSFER: "If copies took no time",
    Verdict.NETWORK: "If the network took no time",
    Verdict.HOST: "If that code took no time",
}
IF_EVEN = "If no rank waited"  # of a verdict on the network that is on uneven ranks
CHANGES_RESULT = "this can change what the training learns: compare the loss"

# What makes a tip able to judge, by what is said where it could not.
WATCH_LONGER = "watch it for longer"
REMEDIES = {
    r"imported torch|no training": "watch the command that trains",
    r"only .* steps? seen": "let it train for longer",
    r"^no stack samples were": "watch it for longer; with --no-stacks none are taken",
    r"stack samples?|while training stepped|too rarely|too few open files": WATCH_LONGER,
    r"^no torch.profiler window": "watch it for longer, or raise --profiler-share",
}


def verdict(diagnosis: Diagnosis, subject: str = "Training", ready: Gain | None = None) -> list[Block]:
    """The verdict on `subject`, what it would bring to be free of it, and what speaks for it.

    `ready`: what a trial measured on batches that are kept in memory.
    """
    known = diagnosis.verdict is not Verdict.INCONCLUSIVE
    sentence = text.headline(diagnosis).replace("Training", subject, 1)
    colour = VERDICT_COLOURS.get(diagnosis.verdict, "yellow")
    confidence = blocks.quiet(f"confidence: {diagnosis.confidence.value}") if known else ""
    lines: list[Block] = [Headline(blocks.strong(sentence, colour), confidence, level=2)]
    if ceiling := if_free(diagnosis):
        lines.append(Paragraph(ceiling))
    if ready is not None:
        between = f"{text.times(ready.low)} to {text.times(ready.high)}"
        lines.append(
            Paragraph(
                f"Measured with batches kept in memory: {text.times(ready.likely)} as fast ({between})."
            )
        )
    return [*lines, blocks.bullets(diagnosis.because, quietly=True)]


def if_free(diagnosis: Diagnosis) -> str:
    """What it would bring to be free of the bottleneck; nothing where that is not known."""
    free = IF_EVEN if diagnosis.waits_for_ranks else IF_FREE.get(diagnosis.verdict)
    bound = diagnosis.speedup_bound
    return f"{free}: about {text.times(bound)} as fast." if bound is not None and free else ""


def other(diagnosis: Diagnosis) -> str:
    """What `other` is charged to, where phases and classes seem to contradict each other; else nothing.

    With what all of the step comes to then: the phases above and the classes of the verdict add up.
    """
    rest = diagnosis.other
    if rest is None or rest.elsewhere < ELSEWHERE:
        return ""
    passes = f" and {text.percent(rest.in_passes)} between the passes"
    between = passes if rest.in_passes >= text.LEAST_SHOWN else ""
    alone = max(0.0, sum(rest.classes.values()) - rest.in_passes)
    verb = "count as" if between else "counts as"
    told = (
        f"other ({text.percent(alone)} of the step){between} {verb} {', '.join(text.classes(rest.classes))}"
    )
    whole = ", ".join(text.classes(diagnosis.classes))
    return f"{told}; with the other phases: {whole}" if whole else told


def finding(found: Finding, cwd: str, brief: bool = False, again: str = "") -> Section:
    """A finding: title, gain, lines, evidence, what to type; in brief, the evidence's first line.

    `again`: what `perfdoctor try` needs beside the tweak to run this command again.
    """
    advice = found.advice
    heading = Headline(blocks.strong(found.title), worth(found), level=4, number=found.rank)
    if brief:
        return [heading, Indented((blocks.bullets(advice.because[:1]),))]
    ways = (
        *_ways(advice, again),
        ("checked", found.checked.value),
        ("more", blocks.code(f"perfdoctor tips {found.id}")),
    )
    return [heading, Indented((*_source(advice.at, cwd), blocks.bullets(advice.because), Labelled(ways)))]


def finding_with_line(found: Finding, cwd: str) -> Section:
    """A finding in its first line of evidence, and its first line of source."""
    heading, evidence = finding(found, cwd, brief=True)
    return [heading, Indented((*_source(found.advice.at[:1], cwd),)), evidence]


def worth(found: Finding) -> Words:
    """What a finding brings, in a word or two."""
    if found.advice.change:
        return blocks.strong(text.gain(found.gain), "green")
    if found.advice.start_s is not None:
        return blocks.strong(f"up to {text.duration(found.advice.start_s)} at each start", "green")
    return blocks.strong("risk", "yellow")


def _source(places: Sequence[Location], cwd: str) -> Iterator[Block]:
    lines = tuple((text.path(at.file, cwd), at.line, (at.text or "").strip()) for at in places[:PLACES])
    if lines:
        yield blocks.CodeLines(lines, len(places) - len(lines))


def _ways(advice: Advice, again: str) -> Iterator[tuple[str, Words | blocks.Code]]:
    """What to type to try it, and the change by hand."""
    if advice.tweak:
        yield "try", blocks.code(f"perfdoctor try {advice.tweak}{again}")
    if advice.code:
        yield "by hand", blocks.Code(advice.code)
    if not advice.same_result:
        yield "caution", CHANGES_RESULT


def not_judged(entries: Sequence[NotJudged], name_all: bool) -> list[str]:
    """Why tips could not be judged, a line a reason, and how to get them judged; with `name_all`, which."""
    reasons: dict[str, list[str]] = {}
    for entry in entries:
        reason = entry.because if name_all else entry.because.partition("; ")[0]
        reasons.setdefault(reason, []).append(entry.id)
    return [
        f"{', '.join(ids) if name_all else text.count(len(ids), 'tip')}: {reason}{_remedy(reason)}"
        for reason, ids in sorted(reasons.items(), key=lambda entry: -len(entry[1]))
    ]


def _remedy(reason: str) -> str:
    """How to get judged what could not be, where it is known."""
    known = (remedy for pattern, remedy in REMEDIES.items() if re.search(pattern, reason))
    remedy = next(known, None)
    return f" ({remedy})" if remedy else ""
