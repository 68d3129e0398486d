"""Finds lines that run one small tensor operation at a time, in loops of many turns: TensorLoopFacts."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from perfdoctor.facts.device.charged import attributed_shares
from perfdoctor.facts.device.device import DeviceFacts
from perfdoctor.facts.host.stack_costs import StackCost, StackCosts
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.carried import carried
from perfdoctor.facts.user_source.frames import Frame
from perfdoctor.facts.user_source.loop_statements import unit_of
from perfdoctor.facts.user_source.parse import COMPREHENSIONS, Sources, header
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.lines import StepLines
from perfdoctor.model.measured import LineCost, Location, Phase, StackFacts, StepFacts, WindowFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.constants import ConstantsLookEvent

DEEP = 2  # loops around a line, the training loop left out: of one alone, its turns have to be many
MANY = 16  # turns in a step: layers, heads, scales and parts of a loss are fewer
LAUNCHES = (ast.Call, ast.BinOp, ast.Compare)  # what runs an operator at least, on a device as well
OPERATORS = (*LAUNCHES, ast.Subscript)
TURNS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # frames of comprehensions, on their line


@dataclass(frozen=True)
class TensorLoopFacts:
    """Lines of the model, or between it and the loss, that compute element by element, costliest first."""

    lines: tuple[LineCost, ...]
    in_forward: float  # the part of their shares that the timers charge to forward
    waited: float | None = None  # share of the step in which a device waits for its host; None: not known

    @property
    def share(self) -> float:
        """What they take together."""
        return sum(line.share for line in self.lines)


@fact
def tensor_loop_facts(
    stacks: StackFacts,
    sources: Sources,
    costs: StackCosts | Missing | None,
    shown: StepLines | Missing | None,
    step: StepFacts,
    window: WindowFacts | None,
    rank: RankRecords,
    device: DeviceFacts | Missing | None = None,
) -> TensorLoopFacts | None:
    """Such lines, or None where there are none.

    A line counts if its result does not go into the next turn of its loop, but into a sum: what it does could
    be done for all turns at once. What functions of the user's do counts for the line whose loop calls them.
    """
    anchors = {(line.at.file, line.at.line) for line in _training(stacks)}
    if isinstance(costs, StackCosts):
        anchors |= costs.anchors
    operator_s = _operator_s(step, window) or _call_s(step, rank.of(ConstantsLookEvent))
    code = _TurnCode(
        sources, frozenset(anchors), LAUNCHES if window is not None and window.on_device else OPERATORS
    )
    others = (line for line in stacks.phases.get(Phase.OTHER, ()) if line.kind == "compute")
    lines = [
        line
        for line in (*others, *stacks.phases.get(Phase.FORWARD, ()))
        if not _calls_module(line)
        and code.independent(line.at, line.share * step.mean_s / operator_s if operator_s else 0.0)
    ]
    if isinstance(costs, StackCosts) and operator_s:
        lines += _calling(costs.costs, lines, code, operator_s, step.mean_s)
    if not lines:
        return None
    between = sum(line.share for line in lines if line.kind is not None)
    in_forward = sum(line.share for line in lines) - min(between, step.share(Phase.OTHER))
    if isinstance(shown, StepLines):  # the same code runs in validation, too
        lines = [replace(line, share=line.share + _in_validation(line, shown)) for line in lines]
    waited = attributed_shares(device)[Bottleneck.HOST] if isinstance(device, DeviceFacts) else None
    return TensorLoopFacts(tuple(sorted(lines, key=lambda line: -line.share)), in_forward, waited)


def _training(stacks: StackFacts) -> Iterator[LineCost]:
    """Lines that call modules, backward or an optimizer: a loop around one is no loop over elements."""
    yield from stacks.phases.get(Phase.BACKWARD, ())
    yield from stacks.phases.get(Phase.OPTIMIZER, ())
    yield from filter(_calls_module, stacks.phases.get(Phase.FORWARD, ()))


def _in_validation(line: LineCost, shown: StepLines) -> float:
    place = line.at.file, line.at.line
    return sum(
        other.share
        for other in shown.lines
        if other.phase is Phase.VALIDATION and (other.at.file, other.at.line) == place
    )


def _operator_s(step: StepFacts, window: WindowFacts | None) -> float | None:
    """What an operator takes in the mean, large ones included; None where no window counted them."""
    calls = sum(operator.calls_per_step for operator in window.operators) if window is not None else 0.0
    return step.mean_s / calls if calls else None


def _call_s(step: StepFacts, looks: Sequence[ConstantsLookEvent]) -> float | None:
    """What a call of torch's functions takes in the mean, of those outside backward and update.

    For runs that are too short for a window; None where no look at calls counted them. Of a step with very
    many calls a look sees the begin only: there it is their own time that tells.
    """
    timed = [look.called_s / look.calls for look in looks if look.called_s is not None and look.calls]
    if timed:
        return median(timed)
    calls = median([look.calls for look in looks]) if looks else 0
    apart = sum(step.share(phase) for phase in (Phase.DATA_WAIT, Phase.BACKWARD, Phase.OPTIMIZER))
    return step.mean_s * (1 - apart) / calls if calls and apart < 1 else None


def _calls_module(line: LineCost) -> bool:
    return line.leaf is not None and line.leaf.endswith("forward")


@dataclass(frozen=True)
class _TurnCode:
    """What the source tells of lines in loops."""

    sources: Sources
    anchors: frozenset[tuple[str, int]]  # that training passes through
    operators: tuple[type[ast.AST], ...]

    def independent(self, at: Location, operators: float) -> bool:
        """Whether a line is in loops of many turns and does not use what the turn before left.

        `operators`: how many it runs in a step, if they are of the usual size.
        """
        inner_loops = self.loops(at.file, at.line)
        node = self.sources.file(at.file).statement(at.line)
        if not inner_loops or node is None or unit_of(node).needs & carried(inner_loops[-1].body):
            return False
        return len(inner_loops) >= DEEP or operators >= MANY * max(1, self.written(node))

    def loops(self, file: str, line: int) -> list[ast.For | ast.AsyncFor | ast.While]:
        """The loops whose turns run a line, in its function, outermost first; none around what trains."""
        nested = [loop for loop in self.sources.file(file).loops(line) if loop.lineno < line]
        trained = {number for other, number in self.anchors if other == file}
        return [loop for loop in nested if not trained & set(range(loop.lineno, (loop.end_lineno or 0) + 1))]

    def repeats(self, frame: Frame, called: str) -> bool:
        """Whether a line calls a function in each turn of a loop or a comprehension, whatever the order."""
        if (frame.file, frame.line) in self.anchors:
            return False
        node = self.sources.file(frame.file).statement(frame.line)
        if node is None:
            return False
        loops = self.loops(frame.file, frame.line)
        if loops:
            return not unit_of(node).needs & carried(loops[-1].body)
        return any(
            _in_each_turn(part, called)
            for top in header(node)
            for part in ast.walk(top)
            if isinstance(part, COMPREHENSIONS)
        )

    def keeps(self, frame: Frame) -> bool:
        """Whether the function around a line sets attributes: its next call may need them."""
        scope = self.sources.file(frame.file).scope(frame.line)
        return scope is None or any(
            isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) for part in ast.walk(scope)
        )

    def written(self, node: ast.stmt) -> int:
        """How many operators a statement runs at most, if each runs once."""
        return sum(isinstance(part, self.operators) for part in ast.walk(node))


def _calling(
    costs: Sequence[StackCost], known: Sequence[LineCost], code: _TurnCode, operator_s: float, mean_s: float
) -> Iterator[LineCost]:
    """Lines whose loops call functions of the user's, which run many small operators in all."""
    named = {(line.at.file, line.at.line) for line in known}
    below: dict[Frame, list[StackCost]] = defaultdict(list)
    for cost in costs:
        is_model = cost.phase is Phase.FORWARD or (cost.phase is Phase.OTHER and cost.kind == "compute")
        if is_model and (cost.line.file, cost.line.line) not in named:
            for frame in _repeating(cost, code):
                below[frame].append(cost)
    counted: set[StackCost] = set()
    for frame, all_costs in sorted(below.items(), key=lambda entry: sum(one.seconds for one in entry[1])):
        parts = [cost for cost in all_costs if cost not in counted]  # of an inner loop: it has less time
        seconds = sum(cost.seconds for cost in parts)
        nodes = {code.sources.file(cost.line.file).statement(cost.line.line) for cost in parts}
        written = sum(code.written(node) for node in nodes if node is not None)
        if seconds / operator_s < MANY * max(1, written):
            continue
        counted.update(parts)
        between = all(cost.phase is Phase.OTHER for cost in parts)
        yield LineCost(
            code.sources.at(frame.file, frame.line, frame.name),
            seconds / mean_s,
            sum(cost.samples for cost in parts),
            kind="compute" if between else None,
        )


def _in_each_turn(comprehension: ast.AST, called: str) -> bool:
    """Whether a comprehension calls a function for each element; what it goes through is made once."""
    first = next(part for part in ast.iter_child_nodes(comprehension) if isinstance(part, ast.comprehension))
    once = set(ast.walk(first.iter))
    return any(
        isinstance(part, ast.Call)
        and called in (getattr(part.func, "id", None), getattr(part.func, "attr", None))
        for part in ast.walk(comprehension)
        if part not in once
    )


def _repeating(cost: StackCost, code: _TurnCode) -> Iterator[Frame]:
    """The lines of a stack that call the user's functions in each turn of a loop, but no module."""
    path = [frame for frame in cost.path if frame.name not in TURNS]
    for index, frame in enumerate(path[:-1]):
        inner = path[index + 1 :]
        calls_module = any(each.name == "forward" for each in (*inner, *cost.beyond))
        if not calls_module and code.repeats(frame, inner[0].name) and not any(map(code.keeps, inner)):
            yield frame
