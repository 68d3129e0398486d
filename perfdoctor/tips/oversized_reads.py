"""Batches arrive late because far more is read from files than the items hold.

## What it sees
The step waits for batches, one line takes a large part of their cost with reading files, and many times the
bytes are read that a batch holds, a quarter of a megabyte for each item at least. What comes out of the page
cache counts: it is copied, too. The bytes are those that the kernel counts for the thread that prepares a
batch (Linux only), in at least half of the batches: an archive that is read once does not count, nor do
memory maps. Lines that read from pipes and sockets are left out, and batches that hold next to nothing
besides texts and objects, whose size is not known.

## By hand
    cut = np.fromfile(path, np.int16, count, offset=2 * start)     # only the part that is used
    cut = np.load(path, mmap_mode="r")[start:stop]                  # reads what is sliced
    file.seek(start); part = file.read(size)

Compressed files and pickles can only be read whole: cut them into pieces once, before training, or store
arrays behind each other in one file and slice that. Where memory has room for all files, read each once,
before the workers start.

## When not
Where an item sums up all that is read (an average, a thumbnail), all of it is needed: store the results once.
"""

from __future__ import annotations

import re

from perfdoctor.model.batch import BatchFacts, Stage, waits
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import LoaderFacts, Phase, StepFacts
from perfdoctor.model.units import size
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of step time that waits
LARGE = 0.30  # of a batch's cost that is reading at one line
# As many bytes read as a batch holds: what is read whole rarely shrinks so much. Cropped to half of each side
# it has a quarter, and pixels that become float32 take four times as much.
TIMES = 8
# Of an item. Less is read in a call of its own, of a whole buffer: its time is the call's, not the bytes'.
LEAST_READ = 1 << 18
LEAST_HELD = 1 << 10  # of an item, in tensors: with less, it may be texts that count
KINDS = ("file", "text")  # tables have a tip of their own
NO_FILES = re.compile(r"std(?:out|in)|pipe|popen|sock|recv|url", re.IGNORECASE)
SOUGHT = 0.03  # of the reading: to open a file and to find the place is left
LEAST = 0.5  # of it goes where files have to be cut first, or half of them is used


@tip(
    title="Read only the part of each file that is used",
    bottleneck=Bottleneck.DATA,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
    rivals=("repeated-decoding",),
)
def oversized_reads(step: StepFacts, loader: LoaderFacts, batch: BatchFacts) -> Advice | None:
    """Names the line that reads, where the step waits for batches that read many times what they hold."""
    hidden = step.share(Phase.DATA_WAIT) if loader.keeps_ahead(step.mean_s) else 0.0
    reading = batch.lines(Stage.READING, *KINDS)
    lines = [line for line in reading if not NO_FILES.search(line.at.statement or "")]
    if step.data_stall - hidden < NOTICEABLE or not lines or lines[0].share < LARGE:
        return None
    if not loader.file_bytes or not loader.batch_bytes or loader.file_bytes < TIMES * loader.batch_bytes:
        return None
    items = loader.samples / loader.batches if loader.samples else loader.batch_size or 1
    if loader.file_bytes < LEAST_READ * items or loader.batch_bytes < LEAST_HELD * items:
        return None
    top, share = lines[0].at, lines[0].share
    used = loader.batch_bytes / loader.file_bytes
    low, likely, high = (share * (1 - kept) for kept in (LEAST, used + SOUGHT, used))
    held, read = size(loader.batch_bytes), size(loader.file_bytes)
    text = f": `{top.text}`" if top.text else ""
    return Advice(
        because=(
            waits(step),
            f"a batch holds {held}, and {read} are read from files for it: {1 / used:,.0f} times as much",
            f"{share:.0%} of a batch's {batch.batch_s * 1e3:.1f} ms is reading at line {top.line}{text}",
        ),
        change=Change(batch=Estimate(low, likely, high)),
        at=tuple(line.at for line in lines[:3]),
        code="np.fromfile(path, dtype, count, offset=...)  # or slice a memory map, or seek and read a part",
    )
