"""Finds embedding tables with dense gradients of which a batch looks up few rows: EmbeddingTableFacts."""

from __future__ import annotations

import ast
import re

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.model_and_optimizers import files_of
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, StepFacts
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.embeddings import EmbeddingTableEvent

CLIPS = re.compile(r"clip_grad_(norm|value)_?|clip_gradients|clip_grads_with_norm_")


@dataclass(frozen=True)
class EmbeddingTable:
    """One table whose gradient is as large as the table."""

    path: str  # in the model
    rows: int
    bytes: int
    lookups: float  # per step: no more rows than that get a gradient
    optimizer: str  # the class of the one that updates it
    of_elements: float  # share of that optimizer's elements
    of_all: float  # share of the elements of all optimizers
    at: Location | None  # the line that constructs it

    @property
    def needed(self) -> float:
        """Share of the rows that can get a gradient in a step."""
        return min(1.0, self.lookups / max(1, self.rows))


@dataclass(frozen=True)
class EmbeddingTableFacts:
    """Such tables, largest first."""

    tables: tuple[EmbeddingTable, ...]
    clipped: bool = False  # the script clips gradients, by functions that take no sparse ones


@fact
def embedding_table_facts(rank: RankRecords, step: StepFacts, sources: Sources) -> EmbeddingTableFacts | None:
    """The tables, each with the most look-ups of the sampled backwards; None where there is none."""
    most: dict[tuple[str, int, int], EmbeddingTableEvent] = {}
    for event in rank.of(EmbeddingTableEvent):
        key = (event.path, event.rows, event.bytes)
        if event.rows and (key not in most or event.lookups > most[key].lookups):
            most[key] = event
    tables = [
        EmbeddingTable(
            path=event.path,
            rows=event.rows,
            bytes=event.bytes,
            lookups=event.lookups * max(1.0, step.backwards_per_step),
            optimizer=event.optimizer or "optimizer",
            of_elements=min(1.0, event.of_elements),
            of_all=min(1.0, event.of_all),
            at=sources.shown(location(event.at)),
        )
        for event in most.values()
    ]
    if not tables:
        return None
    clipped = any(_clips(sources.file(file).tree) for file in files_of(rank))
    return EmbeddingTableFacts(tuple(sorted(tables, key=lambda table: -table.bytes)), clipped)


def _clips(tree: ast.Module | None) -> bool:
    """Whether a file of the script clips gradients."""
    return any(
        isinstance(node, ast.Attribute | ast.Name) and CLIPS.fullmatch(_name_of(node))
        for node in (ast.walk(tree) if tree is not None else ())
    )


def _name_of(node: ast.Attribute | ast.Name) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id
