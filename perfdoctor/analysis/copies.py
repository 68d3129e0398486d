"""Lines that do nothing but copy data into new tensors, in the loop and in the dataset."""

from __future__ import annotations

from dataclasses import dataclass

from perfdoctor.analysis.libraries import copies
from perfdoctor.analysis.source import Source, Sources
from perfdoctor.batch import BatchFacts, Stage
from perfdoctor.model import LineCost, StackFacts


@dataclass(frozen=True)
class CopyLines:
    """Such lines: shares of the step where the training thread runs them, of a batch where a loader does."""

    in_loop: tuple[LineCost, ...]
    in_batch: tuple[LineCost, ...]


def copy_lines(
    stacks: StackFacts | str, batch: BatchFacts | str | None, source: Source
) -> CopyLines | str | None:
    """The lines that copy, costliest first; None where there is none."""
    if isinstance(stacks, str):
        return stacks
    sources = Sources(source)
    in_loop = [
        line
        for lines in stacks.phases.values()
        for line in lines
        if line.leaf is None and _copies(line, sources)
    ]
    in_batch = (
        [line for stage in (Stage.TRANSFORMING, Stage.COLLATING) for line in batch.lines(stage, "copy")]
        if isinstance(batch, BatchFacts)
        else []
    )
    if not in_loop and not in_batch:
        return None
    return CopyLines(
        tuple(sorted(in_loop, key=lambda line: -line.share)),
        tuple(sorted(in_batch, key=lambda line: -line.share)),
    )


def _copies(line: LineCost, sources: Sources) -> bool:
    node = sources.file(line.at.file).statement(line.at.line)
    return node is not None and copies(node)
