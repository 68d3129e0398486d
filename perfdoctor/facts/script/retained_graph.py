"""Finds graphs of past steps that stay alive, and the line that keeps them: RetainedGraphFacts."""

from __future__ import annotations

import ast

from perfdoctor.facts.decode import location
from perfdoctor.facts.host.memory_growth import MemoryGrowth
from perfdoctor.facts.host.step_growth import StepGrowth
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.boundaries import Steps
from perfdoctor.facts.user_source.growing_names import ADDING, written
from perfdoctor.facts.user_source.parse import Function, Listing, Sources, header, statements
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.training import RetainedGraphsEvent

MOSTLY = 0.5  # of the growth is waiting for a core: other programs slow the steps


@dataclass(frozen=True)
class RetainedGraphFacts:
    """What is known of graphs that outlive their step."""

    graphs: int  # of the sampled steps, alive at once
    steps: float  # between the oldest of them and the step that saw it
    name: str | None  # of the script's that holds them
    at: Location | None  # the line that adds to it
    bytes_per_step: float | None  # growth of the training process's own memory
    slower: float  # share of the mean step by which steps became slower
    device_bytes_per_step: float | None = None  # growth of memory on accelerators


@fact
def retained_graph_facts(
    rank: RankRecords,
    steps: Steps,
    memory: MemoryGrowth | Missing,
    growth: StepGrowth | None,
    sources: Sources,
) -> RetainedGraphFacts | None:
    """The most graphs that were seen alive at once, or None where old ones were gone whenever looked for."""
    entries = rank.of(RetainedGraphsEvent)
    if not entries:
        return None
    most = max(entries, key=lambda entry: entry.graphs)
    name = most.name
    name = name if isinstance(name, str) else None
    at = sources.shown(location(most.at))
    return RetainedGraphFacts(
        graphs=most.graphs,
        steps=most.rows / max(1.0, steps.per_step),
        name=name,
        at=keeping_line(sources, at, name) if at is not None and name is not None else at,
        bytes_per_step=None if isinstance(memory, Missing) else memory.host_bytes_per_step,
        slower=0.0 if growth is None or (growth.waiting or 0.0) >= MOSTLY else growth.slower,
        device_bytes_per_step=None if isinstance(memory, Missing) else memory.device_bytes_per_step,
    )


def keeping_line(sources: Sources, at: Location, name: str) -> Location:
    """The statement that adds to `name`, looked for in the function that holds it, then in its file."""
    listing = sources.file(at.file)
    scope = listing.scope(at.line)
    for body in (_body(scope), _all(listing)):
        strongest = max(((_strength(node, name), node.lineno) for node in body), default=(0, 0))
        if strongest[0]:
            return sources.at(at.file, strongest[1], at.function)
    return at


def _body(scope: ast.Module | Function | None) -> list[ast.stmt]:
    return list(statements(scope.body)) if scope is not None else []


def _all(listing: Listing) -> list[ast.stmt]:
    return [node for node in ast.walk(listing.tree) if isinstance(node, ast.stmt)] if listing.tree else []


def _strength(node: ast.stmt, name: str) -> int:
    """How plainly a statement adds to `name`: `x += y`, `x.append(y)`, `x = x + y`, `x[i] = y`."""
    whole_name, owner = name, name.rpartition(".")[0]
    if isinstance(node, ast.AugAssign):
        return 4 if written(node.target) == whole_name else 0
    for part in header(node):
        for inner in ast.walk(part):
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
                of = written(inner.func.value)
                if inner.func.attr in ADDING and of is not None and of in {whole_name, owner}:
                    return 3
    if isinstance(node, ast.Assign):
        targets = [target for target in node.targets if written(target) == whole_name]
        again = any(written(inner) == whole_name for inner in ast.walk(node.value))
        if targets and (again or isinstance(targets[0], ast.Subscript)):
            return 2
    return 0
