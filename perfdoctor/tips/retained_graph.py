"""The graphs of past steps are kept: memory grows with every step.

## What it sees
Graphs of steps long past are still alive while training goes on, because a loss or an output of the model is
kept, or added up, together with the graph that made it.

## By hand
    total += loss.item()               # a number; on a device this waits for it
    total += loss.detach()             # a tensor without its graph
    outputs.append(output.detach().cpu())

## When not
Where gradients are taken through several steps on purpose (unrolled optimisation, truncated backpropagation
through time): there the graphs go when the stretch is over.
"""

from __future__ import annotations

import ast

from perfdoctor.analysis.retained import RetainedFacts
from perfdoctor.catalogue import tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck, StepFacts

SEVERAL = 5  # graphs alive at once, of the few that were looked at
LONG = 32  # steps between the oldest and now: longer than what is unrolled on purpose
SLOWER = 0.05  # share of the mean step: less is drift
MIB = 2**20


@tip(
    title="Keep numbers of past steps, not their graphs",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("memory",),
)
def retained_graph(step: StepFacts, retained: RetainedFacts) -> Advice | None:
    """Detaching, where graphs of past steps stay alive."""
    if retained.graphs < SEVERAL or retained.steps < LONG:
        return None
    held = f"`{retained.name}` holds them" if retained.name else "which name holds them was not found"
    growth = retained.bytes_per_step or 0.0
    ago = f"{retained.steps:,.0f} steps ago"
    because = [f"of the graphs looked at, {retained.graphs} were alive at once, one made {ago}: {held}"]
    if growth > 0:
        because.append(
            f"the process's memory grew by {growth / 1024:,.1f} KiB a step,"
            f" {growth * step.count / MIB:,.1f} MiB in this run"
        )
    slower = min(1.0, retained.slower)
    if slower >= SLOWER:
        because.append(f"steps became slower by {slower:.0%} of the mean step")
    text = retained.at.text if retained.at is not None else None
    return Advice(
        because=tuple(because),
        change=removes(0.0, slower / 2, slower) if slower >= SLOWER else None,
        at=(retained.at,) if retained.at is not None else (),
        code=_detached(text) if text is not None else "total += loss.detach()",
    )


def _detached(text: str) -> str:
    """The user's own line with what it adds detached."""
    try:
        node = ast.parse(text).body[0]
    except (SyntaxError, IndexError):
        return f"{text}  # detach what is kept"
    if isinstance(node, ast.AugAssign):
        node.value = _detach(node.value)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        given = node.value.args
        node.value.args = [*map(_detach, given[:1]), *given[1:]]
    else:
        return f"{text}  # detach what is kept"
    return ast.unparse(node)


def _detach(value: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(value, "detach", ast.Load()), [], [])
