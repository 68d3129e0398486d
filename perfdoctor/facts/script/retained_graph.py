"""Finds graphs of past steps that stay alive, and the line that keeps them: RetainedGraphFacts."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfdoctor.facts.decode import Json, location, number
from perfdoctor.facts.host.resources import ENOUGH, HostSamples
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.boundaries import Steps
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Function, Listing, Sources, header, statements
from perfdoctor.model.measured import Location, Phase
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.training import RetainedGraphsEvent

SETTLING = 0.2  # of the steps: memory still grows for other reasons
BLOCKS = 10  # of the settled run, whose median steps are compared
FEW = 10  # steps in a block below which its median says nothing
STEADY = 0.9  # rank correlation of time and place: by chance once in some thousand runs
ADDING = frozenset("append appendleft extend add insert update setdefault push".split())


@dataclass(frozen=True)
class RetainedGraphFacts:
    """What is known of graphs that outlive their step."""

    graphs: int  # of the sampled steps, alive at once
    steps: float  # between the oldest of them and the step that saw it
    name: str | None  # of the script's that holds them
    at: Location | None  # the line that adds to it
    bytes_per_step: float | None  # growth of the training process's private memory
    slower: float  # share of the mean step by which steps became slower


@fact
def retained_graph_facts(
    rank: RankRecords, steps: Steps, span: MeasuredSpan, samples: HostSamples, sources: Sources
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
        bytes_per_step=_growth(samples, span),
        slower=_slower(steps),
    )


def keeping_line(sources: Sources, at: Location, name: str) -> Location:
    """The statement that adds to `name`, looked for in the function that holds it, then in its file."""
    listing = sources.file(at.file)
    scope = listing.scope(at.line)
    for body in (_body(scope), _all(listing)):
        strongest = max(((_strength(node, name), node.lineno) for node in body), default=(0, 0))
        if strongest[0]:
            return replace(at, line=strongest[1], text=sources.text(at.file, strongest[1]))
    return at


def _body(scope: ast.Module | Function | None) -> list[ast.stmt]:
    return list(statements(scope.body)) if scope is not None else []


def _all(listing: Listing) -> list[ast.stmt]:
    return [node for node in ast.walk(listing.tree) if isinstance(node, ast.stmt)] if listing.tree else []


def _strength(node: ast.stmt, name: str) -> int:
    """How plainly a statement adds to `name`: `x += y`, `x.append(y)`, `x = x + y`, `x[i] = y`."""
    whole_name, owner = name, name.rpartition(".")[0]
    if isinstance(node, ast.AugAssign):
        return 4 if _written(node.target) == whole_name else 0
    for part in header(node):
        for inner in ast.walk(part):
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
                of = _written(inner.func.value)
                if inner.func.attr in ADDING and of is not None and of in {whole_name, owner}:
                    return 3
    if isinstance(node, ast.Assign):
        targets = [target for target in node.targets if _written(target) == whole_name]
        again = any(_written(inner) == whole_name for inner in ast.walk(node.value))
        if targets and (again or isinstance(targets[0], ast.Subscript)):
            return 2
    return 0


def _written(node: ast.AST) -> str | None:
    """`total`, `self.total`, and of `history["loss"]` the name before the bracket."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _written(node.value)
        return None if owner is None else f"{owner}.{node.attr}"
    return None


def _growth(samples: Sequence[Json], span: MeasuredSpan) -> float | None:
    """Bytes of private memory that a step adds, by a straight line through the samples of a settled run."""
    settled = span.begin_ns + SETTLING * (span.end_ns - span.begin_ns)
    seen = [
        (number(entry.get("t_ns")), number(proc.get("private_bytes")))
        for entry in samples
        for proc in entry.get("procs") or ()
        if proc.get("role") == "main" and number(entry.get("t_ns")) >= settled and proc.get("private_bytes")
    ]
    if len(seen) < ENOUGH:
        return None
    t_ns, held = np.array(seen).T
    per_ns = float(np.polyfit(t_ns - t_ns[0], held, 1)[0])
    return per_ns * (span.end_ns - span.begin_ns) / span.steps


def _slower(steps: Steps) -> float:
    """Share of the mean step that was not there early on, where steps grow from tenth to tenth of the run."""
    step_seconds = steps.seconds - steps.phases[Phase.VALIDATION] - steps.phases[Phase.CHECKPOINT]
    timed = (step_seconds / steps.weight)[~steps.disturbed]
    settled = timed[int(SETTLING * len(timed)) :]
    if len(settled) < BLOCKS * FEW:
        return 0.0
    medians = np.array([np.median(block) for block in np.array_split(settled, BLOCKS)])
    places = np.arange(BLOCKS)
    grows = float(np.corrcoef(np.argsort(np.argsort(medians, kind="stable")), places)[0, 1]) >= STEADY
    mean = float(medians.mean())
    return max(0.0, (mean - float(medians[0])) / mean) if grows and mean > 0 else 0.0
