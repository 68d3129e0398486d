"""It takes long until the first step, and one line of the script takes most of that.

## What it sees
Samples of the process from the import of torch to the first update fall into one line for many seconds, and
the start takes a noticeable share of the time that the process ran. Time in which no core was free does not
count. The report divides the start: imports, building the model, the script's own lines, the first batch,
compiling.

## By hand
    if os.path.exists("tokens.pt"):           # prepared once, loaded from the second start on
        tokens = torch.load("tokens.pt", mmap=True)
    else:
        tokens = prepare(texts)
        torch.save(tokens, "tokens.pt")

Imports: import inside the function what is only needed there (`python -X importtime train.py` lists them).
Building a large model: `with torch.device("cuda")`, or on `"meta"` if weights are loaded anyway. Compiling:
compile the repeated block instead of the whole model (regional compilation), and keep the compiler's cache
(`TORCHINDUCTOR_CACHE_DIR`) on a disk that lives longer than the job. The first batch: fewer workers, and no
work in each of them before its first sample.

## When not
A job that trains for days and starts once gains nothing. What helps is the time until you see the first loss:
whenever you try something, and whenever a job is restarted.
"""

from __future__ import annotations

from perfdoctor.facts.script.startup import StartUpFacts
from perfdoctor.model.change import Effort
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import tip

LONG_S = 10.0  # in one line: as long as users keep their attention on a task (Nielsen, Usability Engineering)
NOTICEABLE = 0.1  # share of the time that the process ran: a start of minutes is little in a run of hours
SHOWN_S = 0.5  # a part of the start that is shorter is not worth its place in the sentence
SHOWN = 3  # lines named
WORDS = {
    "script": "the script's own lines",
    "import": "further imports",
    "model": "building the model",
    "batch": "starting the loader",
    "compile": "compiling",
}


@tip(
    title="Do less before the first step, or keep its result for the next start",
    bottleneck=Bottleneck.HOST,
    effort=Effort.LINES,
)
def slow_start(start: StartUpFacts) -> Advice | None:
    """Says what the start goes into. No gain is predicted: steps stay as long as they are."""
    lines = [line for line in start.lines if line.seconds >= LONG_S]
    if not lines or start.share < NOTICEABLE:
        return None
    first = lines[0]
    text = f": `{first.at.text}`" if first.at.text else ""
    return Advice(
        because=(
            f"training began after {start.seconds:.0f} s: {start.share:.0%} of the time that the process ran",
            _divided(start),
            f"line {first.at.line} takes {first.seconds:.0f} s ({WORDS.get(first.kind, first.kind)}){text}",
            "this saves time at each start, not in the steps",
        ),
        change=None,
        start_s=sum(line.seconds for line in lines),
        at=tuple(line.at for line in lines[:SHOWN]),
    )


def _divided(start: StartUpFacts) -> str:
    """The parts of the start that take noticeable time, longest first after the import of torch."""
    parts = {WORDS.get(kind, kind): seconds for kind, seconds in start.sampled.items()}
    parts["the wait for the first batch"] = start.first_batch_s
    parts["computing the first step"] = start.first_compute_s
    parts["no core was free"] = start.waiting_s
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    told = [("until torch is imported", start.torch_s), *ordered]
    return ", ".join(f"{what} {seconds:.1f} s" for what, seconds in told if seconds >= SHOWN_S)
