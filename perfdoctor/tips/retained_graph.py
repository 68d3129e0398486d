"""The autograd graphs of past steps stay alive: memory grows with every step.

## What it sees
Graphs of steps long past are still alive while training goes on, because a loss, one term of it or an output
of the model is kept, or summed up, together with its graph. Losses of validation count, too, if they are
computed outside of `torch.no_grad()`.

## By hand
    total += loss.item()               # a number; on a device this waits for the result
    total += loss.detach()             # a tensor without its graph
    outputs.append(output.detach().cpu())

## When not
Where gradients pass through several steps on purpose (unrolled optimisation, truncated backpropagation
through time): there the graphs are freed at the end of each sequence.
"""

from __future__ import annotations

import ast

from perfdoctor.facts.script.retained_graph import RetainedGraphFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.tips.catalogue import tip

SEVERAL = 5  # graphs alive at once, of the few that are sampled
LONG = 32  # steps between the oldest and now: longer than what is unrolled on purpose
SLOWER = 0.05  # share of the mean step: less is drift
MIB = 2**20
VALUES = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp)  # what may be a tensor


@tip(
    title="Keep values from past steps without their autograd graphs",
    bottleneck=Bottleneck.COMPUTE,
    effort=Effort.LINES,
    saves=("memory",),
)
def retained_graph(step: StepFacts, retained: RetainedGraphFacts) -> Advice | None:
    """Advises detaching where graphs of past steps stay alive."""
    if retained.graphs < SEVERAL or retained.steps < LONG:
        return None
    held = f"`{retained.name}` holds them" if retained.name else "the variable that holds them was not found"
    ago = f"{retained.steps:,.0f} steps ago"
    because = [f"{retained.graphs} of the sampled graphs were alive at once, one from {ago}: {held}"]
    grew = (("the process's", retained.bytes_per_step), ("the device's", retained.device_bytes_per_step))
    because += [
        f"{whose} memory grew by {growth / 1024:,.1f} KiB per step,"
        f" {growth * step.count / MIB:,.1f} MiB in this run"
        for whose, growth in grew
        if growth is not None and growth > 0
    ]
    slower = min(1.0, retained.slower)
    if slower >= SLOWER:
        because.append(f"steps slowed down by {slower:.0%} of the mean step")
    text = retained.at.statement if retained.at is not None else None
    return Advice(
        because=tuple(because),
        change=removes(0.0, slower / 2, slower) if slower >= SLOWER else None,
        at=(retained.at,) if retained.at is not None else (),
        code=_detached(text) if text is not None else "total += loss.detach()",
    )


def _detached(text: str) -> str:
    """The user's own line with `.detach()` on the value it keeps."""
    try:
        node = ast.parse(text).body[0]
    except (SyntaxError, IndexError):
        return f"{text}  # detach what is kept"
    if isinstance(node, ast.AugAssign) and isinstance(node.value, VALUES):
        node.value = _detach(node.value)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _is_value_first(node.value):
        node.value.args[0] = _detach(node.value.args[0])
    else:
        return f"{text}  # detach what is kept"
    return ast.unparse(node)


def _is_value_first(call: ast.Call) -> bool:
    """Whether what is kept is the first argument, and may be a tensor."""
    return bool(call.args) and isinstance(call.args[0], VALUES)


def _detach(value: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(value, "detach", ast.Load()), [], [])
