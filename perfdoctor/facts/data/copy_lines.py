"""Finds lines that do nothing but copy data into new tensors, in the loop and in the dataset."""

from __future__ import annotations

from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.library_table import copies
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.batch import BatchFacts, Stage
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LineCost, Phase, StackFacts
from perfdoctor.model.missing import Missing


@dataclass(frozen=True)
class CopyLines:
    """Such lines: shares of the step where the training thread runs them, of a batch where a loader does."""

    in_loop: tuple[LineCost, ...]
    in_batch: tuple[LineCost, ...]
    phases: tuple[Phase, ...]  # of each line in the loop


@fact
def copy_lines(stacks: StackFacts, batch: BatchFacts | Missing | None, sources: Sources) -> CopyLines | None:
    """The lines that copy, costliest first; None where there is none."""
    in_loop = sorted(
        (
            (line, phase)
            for phase, lines in stacks.phases.items()
            for line in lines
            if line.leaf is None and _copies(line, sources)
        ),
        key=lambda found: -found[0].share,
    )
    in_batch = (
        [line for stage in (Stage.TRANSFORMING, Stage.COLLATING) for line in batch.lines(stage, "copy")]
        if isinstance(batch, BatchFacts)
        else []
    )
    if not in_loop and not in_batch:
        return None
    return CopyLines(
        tuple(line for line, _ in in_loop),
        tuple(sorted(in_batch, key=lambda line: -line.share)),
        tuple(phase for _, phase in in_loop),
    )


def _copies(line: LineCost, sources: Sources) -> bool:
    node = sources.file(line.at.file).statement(line.at.line)
    return node is not None and copies(node)
