"""Derivatives of one output by several inputs that are taken one call of `autograd.grad` after another.

Between two backwards of a few steps each such call is noted: what it derives, how long it takes, and how
much graph it makes for the loss to go back through.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set, Tuple

from ...wire.events.training import SeparateDerivativesEvent
from .. import patch
from ..containers import is_a
from ..looks.op_recording import unseen
from ..loss_graph import nodes_of
from ..observer import Watch, observer
from ..recorder import Recorder, clock
from ..user_frames import user_lines
from ..wrapping import Args, Kwargs

SAMPLED = (8, 16, 32)  # backwards after which the derivatives of the next step are noted
CALLS_MAX = 200  # noted in one step
LINES_MAX = 4  # named

NAME = "separate_derivatives"
Output = Tuple[int, int]  # the number of the operation that made a tensor, and which of its results it is


class DerivativeCall:
    """One call: nothing of its tensors is kept."""

    def __init__(self, inputs: Set[int], elapsed_ns: int, nodes: int) -> None:
        self.inputs = inputs
        self.elapsed_ns = elapsed_ns
        self.nodes = nodes  # of the graph that it made
        self.lines = user_lines()


class DerivativesOfStep:
    """A look from one backward to the end of the next."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.begun = False
        self.outputs: Dict[Output, List[DerivativeCall]] = {}
        self.elapsed_ns = 0
        self.calls = 0
        self.backward_ns = 0
        self.derived = patch.guarded(NAME, unseen(self._derived))
        self.before_backward = patch.guarded(NAME, self._before_backward)
        self.after_backward = patch.guarded(NAME, self._after_backward)

    def _before_backward(self, loss: Any) -> None:
        """Begin to note with the first backward, until the next."""
        if not self.begun:
            self.begun = True
            self.watch.moments.derived.append(self.derived)
            return
        self.watch.moments.derived.remove(self.derived)
        self.backward_ns = clock()

    def _after_backward(self) -> None:
        """Write what the calls have in common, once the backward after them has ended."""
        if not self.backward_ns:
            return
        self.watch.steps.schedule.looks.remove(self)
        self.backward_ns = clock() - self.backward_ns
        groups = [calls for calls in map(_joinable, self.outputs.values()) if len(calls) > 1]
        if not groups:
            return
        most = max(groups, key=lambda calls: sum(call.elapsed_ns for call in calls))
        self.watch.write(
            SeparateDerivativesEvent(
                calls=self.calls,
                again=sum(len(calls) - 1 for calls in groups),
                seconds=self.elapsed_ns / 1e9,
                again_s=sum(map(_again_ns, groups)) / 1e9,
                backward_s=self.backward_ns / 1e9,
                again_nodes=sum(map(_again_nodes, groups)),
                lines=_lines(most),
            )
        )

    def _derived(self, args: Args, kwargs: Kwargs, result: Any, elapsed_ns: int) -> None:
        """Note a call that derives one tensor; one that failed has no result."""
        if result is None:
            return
        self.calls += 1
        self.elapsed_ns += elapsed_ns
        output: Any = args[0] if args else kwargs.get("outputs")
        if is_a(output, (list, tuple)) and len(output) == 1:
            output = output[0]
        made = getattr(output, "grad_fn", None)
        if made is None or self.calls > CALLS_MAX:
            return
        given = args[1] if len(args) > 1 else kwargs.get("inputs")
        inputs = given if is_a(given, (list, tuple)) else (given,)
        call = DerivativeCall({id(one) for one in inputs}, elapsed_ns, _made(result, made))
        self.outputs.setdefault((made._sequence_nr(), output.output_nr), []).append(call)


def _joinable(calls: List[DerivativeCall]) -> List[DerivativeCall]:
    """Those by inputs of their own: the same input again asks for another row of a Jacobian."""
    found: List[DerivativeCall] = []
    seen: Set[int] = set()
    for call in calls:
        if not call.inputs & seen:
            found.append(call)
        seen |= call.inputs
    return found


def _made(result: Any, made: Any) -> int:
    """How many nodes a call added to the graph of what it derived; 0 where there is no saying."""
    before = nodes_of(made)
    sizes = [nodes_of(one.grad_fn) for one in result if getattr(one, "grad_fn", None) is not None]
    if before is None:
        return 0
    return max([0, *(len(nodes) - len(before) for nodes in sizes if nodes is not None)])


def _again_nodes(calls: List[DerivativeCall]) -> int:
    """What one call for all saves: it goes the longest way, and the others' are on it."""
    return sum(call.nodes for call in calls) - max(call.nodes for call in calls)


def _again_ns(calls: List[DerivativeCall]) -> float:
    """Of their time, so much as of their nodes, which other work on the machine leaves alone."""
    nodes = sum(call.nodes for call in calls)
    part = _again_nodes(calls) / nodes if nodes else 1 - 1 / len(calls)
    return part * sum(call.elapsed_ns for call in calls)


def _lines(calls: List[DerivativeCall]) -> List[Dict[str, Any]]:
    """Where the script asks for each: outside of a function of its own that asks for all of them."""
    deepest = min(len(call.lines) for call in calls)
    places: List[List[Dict[str, Any]]] = [[call.lines[depth] for call in calls] for depth in range(deepest)]
    apart: Optional[List[Dict[str, Any]]] = next(
        (each for each in places if any(one != each[0] for one in each)), None
    )
    found: List[Dict[str, Any]] = []
    for line in apart or (places[0] if places else []):
        if line not in found:
            found.append(line)
    return found[:LINES_MAX]


@observer
def separate_derivatives(watch: Watch) -> None:
    """Note the derivatives of a few steps."""
    due = list(SAMPLED)

    def sample(recorder: Recorder, loss: Any) -> None:
        if due and watch.steps.schedule.backwards >= due[0]:
            due.pop(0)
            watch.steps.schedule.looks.append(DerivativesOfStep(watch))

    watch.before_some_backwards(NAME, sample)
