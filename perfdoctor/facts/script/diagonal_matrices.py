"""Finds work on whole matrices that hold nothing but a diagonal: DiagonalMatrixFacts."""

from __future__ import annotations

from statistics import median

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.looked_at import FEW, NO_VALUES, share_of_line, share_of_look
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.change import Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.diagonal_matrices import DiagonalMatricesLineEvent, DiagonalMatricesLookEvent
from perfdoctor.wire.events.script import DeviceEvent


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
    looks = [
        event for event in rank.of(DiagonalMatricesLookEvent) if event.look is not None and event.step_s > 0
    ]
    if len(looks) < FEW:
        return Missing(NO_VALUES) if rank.of(DeviceEvent) else None
    shares = sorted(share_of_look(event, event.step_s, step) for event in looks)
    found: dict[Location, list[DiagonalMatricesLineEvent]] = {}
    for event in rank.of(DiagonalMatricesLineEvent):
        at = location(event.at)
        if at is not None and event.width > 0:
            found.setdefault(at, []).append(event)
    lines = [
        DiagonalMatrixLine(
            at=sources.shown(at) or at,
            share=share_of_line(events, looks, step),
            functions=tuple(events[-1].names),
            matrices=events[-1].matrices,
            width=events[-1].width,
            distribution=events[-1].distribution,
        )
        for at, events in found.items()
    ]
    return DiagonalMatrixFacts(
        share=Estimate(shares[0], median(shares), shares[-1]),
        lines=tuple(sorted(lines, key=lambda line: -line.share)),
        samples=len(looks),
    )
