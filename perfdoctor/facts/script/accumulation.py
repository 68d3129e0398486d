"""Finds what a step accumulates gradients over, and the lines that say so: AccumulationFacts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.model_and_optimizers import files_of
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LoaderFacts, Location, StepFacts
from perfdoctor.runs.types import RankRecords

# Arguments that libraries take: transformers and accelerate, Lightning.
SIZES = frozenset(("per_device_train_batch_size", "train_micro_batch_size_per_gpu"))
COUNTS = frozenset(("gradient_accumulation_steps", "accumulate_grad_batches"))


@dataclass(frozen=True)
class AccumulationFacts:
    """A step of several micro-batches."""

    batches: int  # of a step, each with a forward and a backward
    size: int  # samples of one
    at: tuple[Location, ...]  # where size and number are set, else the line that builds the loader


@fact
def accumulation_facts(
    rank: RankRecords, step: StepFacts, loader: LoaderFacts, sources: Sources
) -> AccumulationFacts | None:
    """Micro-batches of the training loader, or None where a step trains on a single batch."""
    batches = round(min(loader.batches_per_step, step.backwards_per_step))
    if batches < 2 or not loader.batch_size:
        return None
    named = list(_named(rank, sources))
    at = tuple(named) if named else (loader.at,) if loader.at is not None else ()
    return AccumulationFacts(batches, loader.batch_size, at)


def _named(rank: RankRecords, sources: Sources) -> Iterator[Location]:
    """The first line that sets the size of a micro-batch, and the first that sets their number."""
    for wanted in (SIZES, COUNTS):
        lines = (
            sources.at(file, keyword.value.lineno)
            for file in files_of(rank)
            if (tree := sources.file(file).tree) is not None
            for call in ast.walk(tree)
            if isinstance(call, ast.Call)
            for keyword in call.keywords
            if keyword.arg in wanted
        )
        yield from list(lines)[:1]
