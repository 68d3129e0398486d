"""The training process reads the same file again and again.

## What it sees
Functions that read whole files (`pandas.read_csv`, `numpy.load`, `torch.load`, `json.load` and their like)
are called with the same path and the same arguments as before, the file was not written in between, and this
takes a noticeable share of the time between the first step and the last. The calls themselves are timed.

## By hand
    table = pandas.read_csv(path)                        # once, before the loop
    for epoch in range(epochs):
        dataset = Table(table)                           # and not Table(path)

    @functools.lru_cache(maxsize=None)                   # or where it is read
    def read_labels(path):
        ...

## When not
Where what was read is changed afterwards, each use needs a copy of it. Where all that is read takes more
memory than there is.
"""

from __future__ import annotations

from perfdoctor.facts.host.repeated_reads import RepeatedRead, RepeatedReadFacts
from perfdoctor.model.change import Change, Effort
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.units import count
from perfdoctor.tips._came_again import goes
from perfdoctor.tips._repeated import repeated
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the training time
SHOWN = 3  # lines named


@tip(
    title="Read a file once: it is the same each time",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
    rivals=("batches-built-in-the-loop", "slow-postprocessing", "repeated-calls", "costly-line"),
)
def repeated_reads(again: RepeatedReadFacts) -> Advice | None:
    """Names such lines where they take a noticeable share of the training time."""
    share = min(1.0, sum(line.share for line in again.lines))
    if share < NOTICEABLE:
        return None
    shown = [line for line in again.lines[:SHOWN] if line.share >= 0.1 * share]
    places = (at for line in shown for at in (line.at, line.caller) if at is not None)
    return Advice(
        because=(
            f"{share:.0%} of the training time reads files again that have not changed",
            *map(_said, shown),
        ),
        change=Change(step=goes(share)),
        at=tuple(dict.fromkeys(places))[:SHOWN],
        bottleneck=shown[0].bottleneck,
        code=_cure(shown[0]),
    )


def _said(line: RepeatedRead) -> str:
    text = f": `{line.at.text}`" if line.at.text else ""
    files = "the same file" if line.files == 1 else f"each of {count(line.files, 'file')}"
    times = count(line.reads, "time") if line.files == 1 else f"up to {count(line.reads, 'time')}"
    return f"line {line.at.line} takes {line.share:.0%}: it reads {files} {times}{text}"


def _cure(line: RepeatedRead) -> str:
    if line.files > 1:
        return "@functools.lru_cache(maxsize=None)  # on a function of its own that reads, given the path"
    text = repeated(line.at) or "..."
    read = text if text.startswith("...") else text.partition("  #")[0]  # without the line's own comment
    return f"# once, before the loop, and handed on:\n{read}"
