"""Finds embedding tables with dense gradients of which a batch looks up few rows: EmbeddingTableFacts."""

from __future__ import annotations

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.model_and_optimizers import files_of
from perfdoctor.facts.user_source.parse import Sources, names_in
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, StepFacts
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.embeddings import EmbeddingTableEvent

CLIPPING = frozenset(
    "clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ clip_gradients".split()
)


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
    calls: float = 1.0  # look-ups a step: each makes a gradient of the table's size, which are then added up

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
            calls=max(1, event.calls) * max(1.0, step.backwards_per_step),
        )
        for event in most.values()
    ]
    if not tables:
        return None
    trees = (sources.file(file).tree for file in files_of(rank))
    clipped = any(tree is not None and CLIPPING & names_in(tree) for tree in trees)
    return EmbeddingTableFacts(tuple(sorted(tables, key=lambda table: -table.bytes)), clipped)
