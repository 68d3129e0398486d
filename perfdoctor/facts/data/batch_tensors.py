"""Measures how many tensors a batch comes from the workers in, and what their way costs: BatchTensorFacts."""

from __future__ import annotations

import ast
from statistics import fmean

from perfdoctor.facts.data.handing_over import HandOverFacts
from perfdoctor.facts.data.training_loader import trained_on
from perfdoctor.facts.host.freed_batches import FREED
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.function_finder import FunctionFinder
from perfdoctor.facts.user_source.parse import Sources, header
from perfdoctor.facts.user_source.project import project_files
from perfdoctor.facts.user_source.update_dependence import modules_of
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LoaderFacts, Location, Phase, StackFacts, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.loaders import BatchTensorsEvent


@dataclass(frozen=True)
class BatchTensorFacts:
    """The tensors of a batch of the training loader, and what their way from the workers takes of a step."""

    tensors: float  # of a batch, in the mean
    longest: float  # entries of the longest list or dictionary of a batch: its samples, where it has a list
    handed: float  # share of the step that waits for their way from the workers
    freed: float  # share of the step in which the training thread lets go of them
    samples: int  # stack samples behind both
    at: tuple[Location, ...] = ()  # where they are collated, the loader, where they are let go of


@fact
def batch_tensor_facts(
    looks: list[BatchTensorsEvent],
    rank: RankRecords,
    span: MeasuredSpan,
    step: StepFacts,
    loader: LoaderFacts,
    handing: HandOverFacts,
    stacks: StackFacts | Missing | None,
    sources: Sources,
) -> BatchTensorFacts | None:
    """What the first batches held and what stack samples saw, or None where no batch was looked at."""
    training = trained_on(rank, span)
    seen = [look for look in looks if look.loader in training]
    if not seen:
        return None
    lines = stacks.phases.get(Phase.OTHER, ()) if isinstance(stacks, StackFacts) else ()
    freed = [line for line in lines if line.kind == FREED]
    collating = _collating(loader.at, sources) if loader.at is not None else None
    return BatchTensorFacts(
        tensors=fmean(look.tensors for look in seen),
        longest=fmean(look.longest for look in seen),
        handed=step.share(Phase.DATA_WAIT) * handing.of_waits,
        freed=min(1.0, sum(line.share for line in freed)),
        samples=handing.samples + sum(line.samples for line in freed),
        at=tuple(filter(None, (collating, sources.shown(loader.at), *(line.at for line in freed[:1])))),
    )


def _collating(at: Location, sources: Sources) -> Location | None:
    """Where the function that a loader is given as `collate_fn` returns a batch, if it is the user's own."""
    listing = sources.file(at.file)
    node = listing.statement(at.line)
    calls = [inner for part in header(node) for inner in ast.walk(part)] if node is not None else []
    words = (word for call in calls if isinstance(call, ast.Call) for word in call.keywords)
    finder = FunctionFinder(listing, modules_of(sources, at.file))
    for value in (word.value for word in words if word.arg == "collate_fn"):
        for theirs, function in finder.called(ast.copy_location(ast.Call(value, [], []), value)):
            returned = [one for one in ast.walk(function) if isinstance(one, ast.Return)]
            files = project_files([at.file], sources)
            file = next((file for file in files if sources.file(file) is theirs.file.listing), None)
            if file is not None and returned:
                return sources.at(file, max(one.lineno for one in returned), function.name)
    return None
