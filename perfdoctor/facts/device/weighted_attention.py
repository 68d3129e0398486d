"""Finds calls of torch's multi-head attention that return its weights: WeightedAttention, by stack samples.

nn.MultiheadAttention returns them unless it is called with need_weights=False, and writes attention out for
that. The source around a call tells whether anything uses them.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from perfdoctor.facts.device.attention import SEEN, attention_of, of_forward
from perfdoctor.facts.device.device import AttentionFacts
from perfdoctor.facts.host.line_costs import line_costs
from perfdoctor.facts.host.stacks import threads
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Frame, Owner, wrapped
from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import Function, Sources, covers, header
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LineCost, Phase, StepFacts
from perfdoctor.runs.types import RankRecords

COMPUTES = "multi_head_attention_forward"
WANTED, WANTED_PLACE = "need_weights", 4  # of a module's arguments
TAKEN = 3  # arguments that it cannot do without
HOOKS = "register_forward_hook"  # what it is given may be the weights


@dataclass(frozen=True)
class WeightedAttention:
    """Calls that return weights. Shares are of the step, in its forward pass."""

    unused: tuple[LineCost, ...]  # lines whose weights nothing uses, costliest first
    unused_part: float  # of the samples of all such calls
    between_share: float  # of the unused ones: work on the scores
    products_share: float

    def alone(self, step: StepFacts) -> AttentionFacts | None:
        """The unused ones as attention written out, or None where few samples saw any."""
        if sum(line.samples for line in self.unused) < SEEN or not self.between_share:
            return None
        found = of_forward(self.between_share, self.products_share, step)
        return found and self.named(found)

    def of(self, found: AttentionFacts) -> AttentionFacts | None:
        """What a window found, if all of it is of such calls; None where their weights are used."""
        return self.named(replace(found, per_us=found.per_us * self.unused_part)) if self.unused else None

    def named(self, found: AttentionFacts) -> AttentionFacts:
        """With the lines that call torch's."""
        return replace(found, at=tuple(line.at for line in self.unused), unused_weights=True)


@fact
def weighted_attention(rank: RankRecords, step: StepFacts, sources: Sources) -> WeightedAttention | None:
    """Such calls, or None where no sample passed through one."""
    forward = list(_forward(rank))
    samples = sum(count for *_, count in forward)
    unused: Counter[tuple[Frame, str | None, str | None]] = Counter()
    parts = {"between": 0, "products": 0}
    calls = 0
    for caller, inside, count in forward:
        part = _part(inside, sources) if inside is not None else None
        if part is None:
            continue
        calls += count
        if caller is not None and drops_weights(caller, sources):
            unused[caller, None, None] += count
            parts[part] += count
    if not calls:
        return None
    per_sample = step.share(Phase.FORWARD) / samples
    return WeightedAttention(
        unused=line_costs(unused, per_sample * unused.total(), sources),
        unused_part=unused.total() / calls,
        between_share=per_sample * parts["between"],
        products_share=per_sample * parts["products"],
    )


def _forward(rank: RankRecords) -> Iterator[tuple[Frame | None, Frame | None, int]]:
    """Samples of forward; those in torch's attention with the user's line that calls it, and with its own.

    What a library calls is not the user's to change, and has no caller.
    """
    for label, frames, count in threads(rank):
        phases = wrapped(frames)
        if label != "main" or not phases or frames[phases[-1]].phase is not Phase.FORWARD:
            continue
        below = [
            at for at, frame in enumerate(frames) if frame.name == COMPUTES and frame.owner is Owner.TORCH
        ]
        if not below:
            yield None, None, count
            continue
        around = (frame for frame in frames[below[-1] :: -1] if frame.owner not in {Owner.TORCH, Owner.PROBE})
        caller = next(around, None)
        yield caller if caller and caller.owner is Owner.USER else None, frames[below[-1]], count


def _part(inside: Frame, sources: Sources) -> str | None:
    """What a line of torch's function is for; None where it is the same without weights."""
    scope = sources.file(inside.file).scope(inside.line)
    if not isinstance(scope, Function):
        return None
    between, products = attention_of(scope)
    for part, nodes in (("between", between), ("products", products)):
        if any(covers(node, inside.line) for node in nodes):
            return part
    return None


def drops_weights(caller: Frame, sources: Sources) -> bool:
    """Whether the source shows that nothing uses the weights that a line's calls return."""
    listing = sources.file(caller.file)
    node, scope = listing.statement(caller.line), listing.scope(caller.line)
    if node is None or scope is None or listing.tree is None:
        return False
    if any(called_name(each) == HOOKS for each in _calls(listing.tree)):
        return False
    return _takes_first(node) or _sets_unused(node, scope)


def _takes_first(node: ast.stmt) -> bool:
    """`attention(x, x, x)[0]`, anywhere in the statement but within what another such call is given."""
    inner = [each for part in header(node) for each in ast.walk(part)]
    attending = [each for each in inner if isinstance(each, ast.Call) and _may_attend(each)]
    given = {id(part) for call in attending for part in ast.walk(call)}
    firsts = (each for each in inner if isinstance(each, ast.Subscript) and _is_first(each))
    return any(each.value in attending and _returns(each.value) and id(each) not in given for each in firsts)


def _is_first(node: ast.Subscript) -> bool:
    return isinstance(node.slice, ast.Constant) and node.slice.value == 0


def _sets_unused(node: ast.stmt, scope: ast.Module | Function) -> bool:
    """`out, weights = attention(x, x, x)`, or `both = ...`, of which only the first is read thereafter."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not _returns(node.value):
        return False
    target = node.targets[0]
    inner = [each for one in scope.body for each in ast.walk(one)]
    if isinstance(target, ast.Name):
        firsts = {id(each.value) for each in inner if isinstance(each, ast.Subscript) and _is_first(each)}
        return all(id(read) in firsts for read in _reads(inner, target.id))
    if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
        return False
    weights = target.elts[1]
    return isinstance(weights, ast.Name) and not _reads(inner, weights.id)


def _reads(nodes: list[ast.AST], name: str) -> list[ast.Name]:
    names = (each for each in nodes if isinstance(each, ast.Name) and each.id == name)
    return [each for each in names if isinstance(each.ctx, ast.Load)]


def _may_attend(call: ast.Call) -> bool:
    """Whether a call gives what attention takes: queries, keys and values."""
    unpacked = any(isinstance(each, ast.Starred) for each in call.args)
    unpacked = unpacked or any(word.arg is None for word in call.keywords)
    return unpacked or len(call.args) + len(call.keywords) >= TAKEN


def _returns(node: ast.expr) -> bool:
    """Whether it is a call that is not told by a variable whether weights are wanted."""
    if not isinstance(node, ast.Call):
        return False
    told = [word.value for word in node.keywords if word.arg in {WANTED, None}] + node.args[WANTED_PLACE:]
    return all(isinstance(each, ast.Constant) for each in told)


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (each for each in ast.walk(tree) if isinstance(each, ast.Call))
