"""Finds work on whole matrices that hold nothing but a diagonal: DiagonalMatrixFacts."""

from __future__ import annotations

from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.looked_at import LookedAt, looked_at
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.change import Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.diagonal_matrices import DiagonalMatricesLineEvent, DiagonalMatricesLookEvent


@dataclass(frozen=True)
class DiagonalMatrixLine:
    """A line that works on whole matrices of which only the diagonal is not zero."""

    at: Location
    share: float  # of a sampled step, with backward; the median
    functions: tuple[str, ...]  # costliest first
    matrices: int  # in a stack
    width: int
    distribution: bool  # its calls are those of torch.distributions


@dataclass(frozen=True)
class DiagonalMatrixFacts:
    """What diagonal matrices take of a step."""

    share: Estimate  # of a sampled step, backward included: the least, the median and the largest
    lines: tuple[DiagonalMatrixLine, ...]  # costliest first
    samples: int  # steps


@fact
def diagonal_matrix_facts(
    rank: RankRecords, step: StepFacts, sources: Sources
) -> DiagonalMatrixFacts | Missing | None:
    """What the sampled steps did to diagonal matrices, or None with too few of them to tell."""
    told = (event for event in rank.of(DiagonalMatricesLineEvent) if event.width > 0)
    seen = looked_at(rank.of(DiagonalMatricesLookEvent), told, rank, step, sources)
    if not isinstance(seen, LookedAt):
        return seen
    lines = [
        DiagonalMatrixLine(
            at=line.at,
            share=line.share,
            functions=tuple(line.events[-1].names),
            matrices=line.events[-1].matrices,
            width=line.events[-1].width,
            distribution=line.events[-1].distribution,
        )
        for line in seen.lines
    ]
    return DiagonalMatrixFacts(share=seen.share, lines=tuple(lines), samples=len(seen.looks))
