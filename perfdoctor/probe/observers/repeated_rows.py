"""Modules that are given the same row several times in one batch, as an encoder is for each of its choices.

Sampled steps tell which modules take a visible part of a step; in the next such step the rows of what these
are given are compared, all inputs together, and what they return for equal ones. Found is the outermost call.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional, Set

from ...wire.events.repeated_rows import RepeatedRowsEvent, RepeatedRowsLookEvent
from ..containers import tensors_in
from ..looks.backward_time import SpanTimer, nodes_that_made, time_span
from ..looks.by_chance import drops_out, normalises_over_batch
from ..looks.equal_rows import EqualRows, equal_rows, given_tensors, returns_the_same
from ..loss_graph import compiles_backward
from ..module_parts import modules_of, parameters_of
from ..observer import Watch, observer
from ..patch import guarded
from ..user_frames import is_called_by_user, user_line
from ..wrapping import Args, Kwargs

NAME = "repeated_rows"
NOTICEABLE = 0.01  # share of a sampled step that a module's calls take: less is not looked at
MODULES_MAX = 4_096  # whose times are added up
CALLS_MAX = 64  # looked at in one step
TOLD_MAX = 10  # lines of one step
TENSORS_MAX = 16  # of a result
TWICE = 2  # views of each row are what some losses by chance are about: R-Drop, SimCSE


class RepeatedCall:
    """One call that was given repeated rows."""

    __slots__ = (
        "by_chance",
        "equal",
        "line",
        "module",
        "normalised",
        "ns",
        "operations",
        "timer",
        "weight_bytes",
    )

    def __init__(self, call: Any, equal: EqualRows, by_chance: bool) -> None:
        nn, module = sys.modules["torch"].nn, call.module
        self.module, self.ns = call.module_type, _own_ns(call)
        self.equal, self.by_chance = equal, by_chance
        self.normalised = any(normalises_over_batch(nn, inner) for inner in modules_of(module))
        self.weight_bytes = sum(one.numel() * one.element_size() for one in parameters_of(module))
        self.line = user_line()
        self.timer, self.operations = SpanTimer(), 0

    @property
    def taken_ns(self) -> int:
        """Forward and backward."""
        return int(self.ns + self.timer.close())


class RepeatedRows:
    """The looks of one process."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.torch = watch.torch
        self.taken: Dict[int, List[Any]] = {}  # by identity of a module: a weak reference, and nanoseconds
        self.costly: Dict[int, Any] = {}  # weak references to those that took a visible part of the last step
        self.others: Set[int] = set()  # of them, whose rows are alike and whose results are not
        self.current: Any = None  # the outermost call under way that is given repeated rows
        self.equal: Optional[EqualRows] = None
        self.before: Set[Any] = set()  # the nodes of the graph that made its inputs
        self.looked_at = 0
        self.found: List[RepeatedCall] = []
        self.looked_from_ns = self.looked_ns = 0  # what looking took, of this observer and of others
        self.called = guarded(NAME, self._called)
        self.returned = guarded(NAME, self._returned)
        self.ended = guarded(NAME, self._ended)

    def _called(self, call: Any, args: Args, kwargs: Kwargs) -> None:
        """A call begins: compare the rows of what a costly module is given."""
        module = args[0]
        weak = self.costly.get(id(module))
        if weak is None or self.current is not None or weak() is not module:
            return
        if id(module) in self.others or self.looked_at >= CALLS_MAX or not self._trains(module):
            return
        given = given_tensors(self.torch.Tensor, [*args[1:], *kwargs.values()])
        self.looked_at += 1
        equal = equal_rows(self.torch, given) if given else None
        if equal is not None and is_called_by_user():
            self.current, self.equal = call, equal
            self.before = nodes_that_made(given or [])

    def _trains(self, module: Any) -> bool:
        if not module.training or isinstance(module, self._lookups()) or not self.torch.is_grad_enabled():
            return False
        return any(one.requires_grad for one in parameters_of(module))

    def _lookups(self) -> Any:
        return self.torch.nn.Embedding, self.torch.nn.EmbeddingBag

    def _returned(self, call: Any, result: Any) -> None:
        """A call has ended: see whether it returned the same for equal rows."""
        module = call.module
        if module is None:
            return
        taken = self.taken.get(id(module))
        if taken is None and len(self.taken) < MODULES_MAX:
            taken = self.taken[id(module)] = [call.weak_module, 0]
        if taken is not None:
            taken[1] += _own_ns(call)
        self.looked_from_ns = self.looked_from_ns or call.looked_from_ns
        self.looked_ns = call.looked_until_ns - self.looked_from_ns
        if call is not self.current or self.equal is None:
            return
        equal, before = self.equal, self.before
        self._forget()
        by_chance = self._by_chance(module, result, equal)
        if by_chance is None:
            self.others.add(id(module))  # what it calls is looked at from now on
        else:
            found = RepeatedCall(call, equal, by_chance)
            results = tensors_in(self.torch.Tensor, result, TENSORS_MAX)
            traced = [one for one in results if one.grad_fn is not None]
            if traced and not compiles_backward():
                found.timer, found.operations = time_span(NAME, traced[0], before)
            self.found.append(found)

    def _by_chance(self, module: Any, result: Any, equal: EqualRows) -> Optional[bool]:
        """Whether results for equal rows differ by chance only; None where the rows have a part in it."""
        nn = self.torch.nn
        same = returns_the_same(self.torch, result, equal)
        inner = list(modules_of(module))
        if same is None or (not equal.times and any(normalises_over_batch(nn, one) for one in inner)):
            return None
        if same:
            return False
        drops = any(drops_out(nn, one) for one in inner)
        by_places = any(vars(one).get("batch_first") is False for one in inner)
        by_chance = drops and not by_places and equal.apart and equal.rows > TWICE * equal.distinct
        return True if by_chance else None

    def _forget(self) -> None:
        self.current = self.equal = None
        self.before = set()

    def _ended(self, look: int, seconds: float) -> None:
        """Write down what was found, and see which modules the next look is for."""
        seconds = max(0.0, seconds - self.looked_ns / 1e9)
        if self.costly:
            self._tell(look, seconds)
        least_ns = NOTICEABLE * seconds * 1e9
        self.costly = {one: weak for one, (weak, ns) in self.taken.items() if ns >= least_ns}
        self.others &= set(self.costly)
        self.taken, self.found = {}, []
        self.looked_at = self.looked_from_ns = self.looked_ns = 0
        self._forget()

    def _tell(self, look: int, seconds: float) -> None:
        taken_ns = sum(call.taken_ns for call in self.found)
        again_ns = sum(call.taken_ns * (1 - call.equal.distinct / call.equal.rows) for call in self.found)
        self.watch.write(
            RepeatedRowsLookEvent(
                look=look,
                step_s=seconds,
                seconds=sum(call.ns for call in self.found) / 1e9,
                backward_s=sum(call.timer.close() for call in self.found) / 1e9,
                repeated=again_ns / taken_ns if taken_ns > 0 else 0.0,
            )
        )
        lines: Dict[str, List[RepeatedCall]] = {}
        for call in self.found:
            lines.setdefault(f"{call.module} {call.line}", []).append(call)
        costliest = sorted(lines.values(), key=lambda same: -sum(call.taken_ns for call in same))
        for same in costliest[:TOLD_MAX]:
            self.watch.write(_of_line(look, same))


def _own_ns(call: Any) -> int:
    """What a call took, without the looks at calls inside it."""
    return max(0, int(call.ns - (call.looked_until_ns - call.looked_from_ns)))


def _of_line(look: int, calls: List[RepeatedCall]) -> RepeatedRowsEvent:
    first = calls[0]
    times = {call.equal.times for call in calls}
    return RepeatedRowsEvent(
        look=look,
        module=first.module,
        calls=len(calls),
        seconds=sum(call.ns for call in calls) / 1e9,
        backward_s=sum(call.timer.close() for call in calls) / 1e9,
        rows=sum(call.equal.rows for call in calls),
        distinct=sum(call.equal.distinct for call in calls),
        times=times.pop() if len(times) == 1 else 0,
        together=all(call.equal.together for call in calls),
        operations=sum(call.operations for call in calls),
        weight_bytes=sum(call.weight_bytes for call in calls),
        by_chance=any(call.by_chance for call in calls),
        normalised=any(call.normalised for call in calls),
        at=first.line,
    )


@observer
def repeated_rows(watch: Watch) -> None:
    """Compare the rows that costly modules are given, in sampled steps."""
    watch.on_sampled_steps(RepeatedRows(watch))
