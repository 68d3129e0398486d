"""Gradients that are thrown away: a backward reaches parameters whose gradients are cleared before an update.

Where a script has several optimizers, every backward is looked at for a few rounds of them, early and twice
later. Of each, a look notes when each operation began, and one parameter of each optimizer that it reached.
Before the next backwards that parameter tells whether its gradient was cleared; an update of its optimizer
ends the question.

Where there is one optimizer, and more backwards than updates, those are looked at that reach a tensor of the
script's own as well: an image that is attacked, or a sample that is drawn by its energy.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, FrozenSet, Iterator, List, Optional, Set, Tuple

from ...wire.events.training import DiscardedGradientsEvent
from .. import patch
from ..constructor_lines import ConstructorLines
from ..containers import fields_of, is_a
from ..frame_names import names_of
from ..loss_graph import compiles_backward, needless, nodes_of, operation_of, parents_of, variable_of
from ..module_parts import gradient_of, is_zero
from ..observer import Watch, observer
from ..recorder import Recorder, clock
from ..steps.steps import StepTracker
from ..user_frames import line_of, user_frames

LOOKS_AT = (8, 64, 256)  # backwards: by the first, every optimizer is there
BACKWARDS = 24  # of a look: two rounds of a critic that is trained five times as often, penalties included
WAITED = 4 * BACKWARDS  # until the last of them found their update, as where gradients are accumulated
# Backwards, beside one optimizer: where they reach no tensor of the script's own, no later one will.
OF_ONE = 8
PASSED = 0.5  # of an operation that hands gradients on, and computes those of a weight as well
TRIED = 4  # of an optimizer's parameters: a gradient that is zero anyway tells nothing, as of a critic's bias
HOLDERS = 2  # of the user's frames in which the names of tensors are looked up, innermost first

Owners = FrozenSet[int]  # identities of the optimizers that have a parameter


class _Reached:
    """What a backward did to the parameters of the same optimizers, told by one of them."""

    def __init__(self, leaves: List[Any]) -> None:
        smallest = sorted(leaves, key=lambda leaf: leaf.numel())[:TRIED]
        self.tried = [(weakref.ref(leaf), _state(gradient_of(leaf))) for leaf in smallest]
        self.leaf: Any = None  # weak references, once the backward is over
        self.gradient: Any = None
        self.discarded: Optional[bool] = None  # not known yet

    def after_backward(self) -> bool:
        """Whether the backward added to a gradient of which clearing it will show."""
        for reference, before in self.tried:
            leaf = reference()
            gradient = None if leaf is None else gradient_of(leaf)
            if gradient is not None and _state(gradient) != before and not is_zero(gradient):
                self.leaf, self.gradient = reference, weakref.ref(gradient)
                return True
        return False

    def look(self) -> None:
        """Conclude from what the gradient is now, if that tells anything."""
        leaf = self.leaf()
        now = None if leaf is None else gradient_of(leaf)
        if leaf is None or (now is not None and now is not self.gradient()):
            self.discarded = False  # replaced by something else, which may be made of it
        elif now is None or is_zero(now):
            self.discarded = True


class _Backward:
    """One backward: its graph by the positions of its nodes, and what it did."""

    def __init__(self) -> None:
        self.place: Tuple[Tuple[str, int], ...] = ()
        self.at: Optional[Dict[str, Any]] = None
        self.parents: List[List[int]] = []
        self.leaves: Dict[int, Owners] = {}  # by position; of no optimizer: the empty set
        self.elements: Dict[int, int] = {}  # of each leaf
        self.names: Dict[int, Tuple[str, Dict[str, Any]]] = {}  # the script's, by the node of their tensor
        self.reached: Dict[Owners, _Reached] = {}
        self.asked: Dict[int, Any] = {}  # leaves that are no parameters: a script that has such wants theirs
        self.weights: Set[int] = set()  # leaves of several dimensions
        self.opaque: Set[int] = set()  # nodes that may reach parameters out of sight
        self.began_at: List[Tuple[int, int]] = []  # (time, position) of operations
        self.handles: List[Any] = []
        self.begin_ns = self.end_ns = 0

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.end_ns - self.begin_ns) / 1e9

    def pending(self) -> Iterator[_Reached]:
        """What it reached and nobody used or cleared so far."""
        return (one for one in self.reached.values() if one.discarded is None)

    @property
    def is_for_inputs(self) -> bool:
        """Whether nothing came of its gradients but those of tensors of the script's own."""
        fates = [one.discarded for one in self.reached.values()]
        return bool(self.asked) and bool(fates) and all(fates)

    def in_vain(self) -> Set[int]:
        """The leaves whose gradients were thrown away while others' were used; none where that is in doubt.

        A network between the loss and a used gradient is left out: its layers have to be passed.
        """
        fates = {owners: one.discarded for owners, one in self.reached.items()}
        vain = {index for index, owners in self.leaves.items() if fates.get(owners)}
        if self.is_for_inputs:
            return vain
        if None in fates.values() or False not in fates.values():
            return set()
        needed = set(range(len(self.parents))) - set(self._needless(vain)) - set(self.leaves)
        passed = {self.leaves.get(parent) for index in needed for parent in self.parents[index]}
        return {index for index in vain if self.leaves[index] not in passed}

    def needless(self, vain: Set[int]) -> Tuple[float, List[int]]:
        """Seconds in the operations that lead to these leaves only, and their positions."""
        found = self._needless(vain) if vain else []
        own = self._own_seconds()
        passed = self._passed({*found, *(vain & self.weights)}) if self.is_for_inputs else []
        seconds = sum(own.get(index, 0.0) for index in found)
        return seconds + PASSED * sum(own.get(index, 0.0) for index in passed), found

    def _passed(self, apart: Set[int]) -> List[int]:
        """Operations that hand gradients on to these, and to others as well."""
        return [
            index
            for index, above in enumerate(self.parents)
            if index not in apart and not apart.isdisjoint(above) and not apart.issuperset(above)
        ]

    def _needless(self, vain: Set[int]) -> List[int]:
        return needless(self.parents, set(self.leaves), (set(self.leaves) - vain) | self.opaque)

    def _own_seconds(self) -> Dict[int, float]:
        """By operation, the time until the next one began."""
        began = sorted(self.began_at)
        ends = [at for at, _ in began[1:]] + [self.end_ns]
        return {index: (end - at) / 1e9 for (at, index), end in zip(began, ends)}


class RoundsLook:
    """All backwards of a few rounds of the optimizers."""

    def __init__(
        self, steps: StepTracker, owners: Dict[int, Owners], optimizers: Dict[int, weakref.ref[Any]]
    ) -> None:
        self.steps = steps
        self.owners = owners  # by the identity of the parameter
        self.optimizers = optimizers  # by number
        self.of_one = len(set(owners.values())) == 1
        self.backwards: List[_Backward] = []
        self.current: Optional[_Backward] = None
        self.updates: Dict[int, List[int]] = {}  # by optimizer: how many backwards there had been
        self.calls = 0
        self.before_backward = patch.guarded("discarded", self._before_backward)
        self.after_backward = patch.guarded("discarded", self._after_backward)
        self.updated = patch.guarded("discarded", self._updated)

    def _before_backward(self, loss: Any) -> None:
        """See what became of earlier gradients, and note this graph."""
        self.calls += 1
        if self.of_one and len(self.backwards) == OF_ONE and not any(one.asked for one in self.backwards):
            self._close()
            return
        pending = [one for backward in self.backwards for one in backward.pending()]
        for one in pending:
            one.look()
        if len(self.backwards) < BACKWARDS:
            self.current = self._noted(loss)
            self.backwards.append(self.current)
        elif self.calls > WAITED or all(one.discarded is not None for one in pending):
            self._end()

    def _after_backward(self) -> None:
        """Note what the backward reached."""
        backward, self.current = self.current, None
        if backward is None:
            return
        backward.end_ns = clock()
        for handle in backward.handles:
            handle.remove()
        backward.handles = []
        told = {owners: one.after_backward() for owners, one in backward.reached.items()}
        if not all(told.values()):  # of `autograd.grad`, or in doubt
            backward.reached = {}
        for owners, one in backward.reached.items():
            if any(identity in owners for identity, _ in self.steps.updates.open):
                one.discarded = False  # the closure of an update that is under way

    def _updated(self, recorder: Recorder, number: int) -> None:
        """An optimizer used the gradients that its parameters have."""
        self.updates.setdefault(number, []).append(len(self.backwards))
        optimizer = self.optimizers[number]() if number in self.optimizers else None
        for backward in self.backwards:
            for owners, one in backward.reached.items():
                if id(optimizer) in owners and one.discarded is None:
                    one.discarded = False

    def _noted(self, loss: Any) -> _Backward:
        backward = _Backward()
        torch = self.steps.torch
        root = loss.grad_fn if type(loss) is torch.Tensor else None
        order = nodes_of(root) if root is not None else None
        if order is not None:
            self._enter(backward, order)
        backward.begin_ns = clock()
        return backward

    def _enter(self, backward: _Backward, order: List[Any]) -> None:
        torch = self.steps.torch
        frames = user_frames()
        backward.place = tuple((frame.f_code.co_filename, frame.f_lineno) for frame in frames)
        backward.at = line_of(frames[0]) if frames else None
        backward.parents = parents_of(order)
        reached = self._leaves(backward, order)
        if self.of_one and not backward.asked:
            return
        for index, node in enumerate(order):
            if index not in backward.leaves:
                if "Checkpoint" in operation_of(
                    node
                ):  # its own backward runs another, which reaches parameters
                    backward.opaque.add(index)
                backward.handles.append(node.register_prehook(_noting(backward.began_at, index)))
        if len(reached) > 1 or (reached and backward.asked):
            backward.reached = {owners: _Reached(leaves) for owners, leaves in reached.items()}
            position = {node: index for index, node in enumerate(order)}
            own = {id(leaf()): index for index, leaf in backward.asked.items()}
            for frame in frames[:HOLDERS]:
                for name, value in _named(names_of(frame)):
                    if not is_a(value, torch.Tensor):
                        continue
                    index = own.get(id(value), position.get(value.grad_fn, -1))
                    if index >= 0:
                        backward.names.setdefault(index, (name, line_of(frame)))

    def _leaves(self, backward: _Backward, order: List[Any]) -> Dict[Owners, List[Any]]:
        """Note what the gradients are added to; those of optimizers, by these."""
        reached: Dict[Owners, List[Any]] = {}
        for index, node in enumerate(order):
            leaf = variable_of(node)
            if leaf is None:
                continue
            owners = self.owners.get(id(leaf), frozenset())
            backward.leaves[index], backward.elements[index] = owners, leaf.numel()
            if leaf.dim() > 1:
                backward.weights.add(index)
            if owners:
                reached.setdefault(owners, []).append(leaf)
            elif type(leaf) is self.steps.torch.Tensor:
                backward.asked[index] = weakref.ref(leaf)
        return reached

    def _close(self) -> None:
        self.steps.schedule.looks.remove(self)
        self.steps.moments.update.remove(self.updated)

    def _end(self) -> None:
        """Take the look off the schedule and write what it saw."""
        self._close()
        rounds = min((seen for seen in self.updates.values() if len(seen) > 1), key=len, default=None)
        backwards = self.backwards[rounds[0] : rounds[-1]] if rounds else self.backwards
        of_place: Dict[Any, List[Tuple[_Backward, Set[int], float, List[int]]]] = {}
        for backward in backwards:
            vain = backward.in_vain()
            if vain:
                of_place.setdefault(backward.place, []).append((backward, vain, *backward.needless(vain)))
        worst = max(of_place.values(), key=lambda found: sum(one[2] for one in found), default=[])
        backward, vain, _, found = worst[-1] if worst else (_Backward(), set(), 0.0, [])
        asked = backward.is_for_inputs
        named = [index for index in (backward.asked if asked else found) if index in backward.names]
        name, held_at = backward.names.get(max(named, default=-1), (None, None))
        self.steps.session.write(
            DiscardedGradientsEvent(
                backwards=len(backwards),
                seconds=sum(one.seconds for one in backwards),
                of_line=len(worst),
                line_s=sum(one[0].seconds for one in worst),
                needless_s=sum(one[2] for one in worst),
                elements=sum(backward.elements[index] for index in vain),
                name=name,
                at=backward.at,
                held_at=held_at,
                asked=asked or None,
            )
        )


class DiscardedGradients:
    """The looks of one process."""

    def __init__(self, steps: StepTracker, lines: ConstructorLines) -> None:
        self.steps = steps
        self.lines = lines
        self.due = list(LOOKS_AT)
        self.optimizers: Dict[int, weakref.ref[Any]] = {}  # that made a step, by number
        self.look: Optional[RoundsLook] = None

    def optimizer_seen(self, optimizer: Any, number: int) -> None:
        """An optimizer makes its first step."""
        self.optimizers[number] = weakref.ref(optimizer)

    def sample(self, recorder: Recorder, loss: Any) -> None:
        """Open a look, if it is time and there are several optimizers, or backwards without an update."""
        schedule = self.steps.schedule
        if not self.due or schedule.backwards < self.due[0]:
            return
        self.due = [count for count in self.due if count > schedule.backwards]
        if self.look is not None and self.look in schedule.looks:
            return
        if len(self.lines.optimizers) < 2 and schedule.backwards <= recorder.updates + 1:
            return
        owners = self._owners()
        if owners and not compiles_backward():
            self.look = RoundsLook(self.steps, owners, self.optimizers)
            schedule.looks.append(self.look)
            self.steps.moments.update.append(self.look.updated)

    def _owners(self) -> Dict[int, Owners]:
        """By identity of a parameter, the optimizers that have it; nothing where parameters are sharded."""
        torch = self.steps.torch
        owners: Dict[int, Owners] = {}
        for optimizer in self.lines.optimizers:
            for leaf in [leaf for group in optimizer.param_groups for leaf in group["params"]]:
                if type(leaf) not in (torch.nn.Parameter, torch.Tensor):
                    return {}
                owners[id(leaf)] = owners.get(id(leaf), frozenset()) | {id(optimizer)}
        return owners


@observer
def discarded_gradients(watch: Watch) -> None:
    """Look at every backward of a few rounds, three times in a run, where gradients may go unused."""
    looks = DiscardedGradients(watch.steps, watch.lines)
    watch.on_optimizer("discarded", looks.optimizer_seen)
    watch.before_some_backwards("discarded", looks.sample)


def _state(gradient: Any) -> Tuple[int, int]:
    return (0, 0) if gradient is None else (id(gradient), gradient._version)


def _noting(began_at: List[Tuple[int, int]], index: int) -> Any:
    """A hook that notes when the operation at `index` begins, and leaves its gradients as they are."""

    def note(gradients: Any) -> None:
        began_at.append((clock(), index))

    return patch.part("discarded", note)


def _named(names: Dict[str, Any]) -> Iterator[Tuple[str, Any]]:
    """The names, and the attributes of `self`."""
    yield from names.items()
    for name, value in list(fields_of(names.get("self")).items()):
        yield f"self.{name}", value
