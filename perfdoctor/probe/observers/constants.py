"""What a step computes although it comes out the same in every step.

In a few steps a mode of torch's sees each call of its Python functions: what goes in, and what comes out. A
mode changes nothing about the call; operators inside are the same as without it.

Two steps in a row are looked at together: a batch that is kept in memory comes again at some later step, but
not in the next one. What is told was constant in both, and in an earlier pair too.
"""

from __future__ import annotations

import os
from _thread import get_ident
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from ...wire.events.constants import ConstantsLineEvent, ConstantsLookEvent
from ...wire.step_rows import BACKWARD, DISTURBED, OPTIMIZER
from .. import patch
from ..constant_calls import Args, ConstantCall, Kwargs, OuterTensors, StepCalls
from ..observer import Watch, observer
from ..profiler.users_profiler import UsersProfilers, compiles
from ..recorder import Recorder, clock

if TYPE_CHECKING:
    from ..steps.steps import StepTracker

FIRST = 64  # the backward that asks for the first pair; each next one comes after twice as many
PAIRS = 8  # in a whole run
ENOUGH = 3  # pairs, where what is constant takes next to no time
LITTLE = 0.01  # of a step
TRAINED = (BACKWARD, OPTIMIZER)  # phases in which all depends on parameters
LEAD = 3  # updates from asking to looking: a look at the calls of modules, asked for then too, is over
UPDATES_MAX = 64  # while one step is waited for: the optimizer that ends it may have had its last
KEYS_MAX = 20_000  # constant calls that are remembered
LINES_MAX = 10  # written down
NAMES_MAX = 3


class Constants:
    """The looked-at pairs of steps of one process."""

    def __init__(self, steps: StepTracker, profilers: UsersProfilers) -> None:
        self.steps = steps
        self.profilers = profilers
        self.torch = steps.torch
        self.overrides = steps.torch.overrides
        self.mode: Any = None
        self.leaves = OuterTensors()
        self.turn = FIRST  # the backward from which the next pair is due
        self.pairs = 0
        self.off = False  # an accelerator trains: the host's time for a call is not the call's
        self.asked = False
        self.updates = 0  # since a pair was asked for, or since a step of it began
        self.owner = self.begin_ns = 0
        self.first: Optional[Dict[int, Any]] = None  # constant calls of a pair's first step
        self.step: Optional[StepCalls] = None  # under way
        self.proven: Dict[int, Any] = {}  # constant in an earlier pair
        self.has_torch_function: Any = None
        self.border = patch.guarded("constants", self._at_border)
        self.before = patch.guarded("constants", self._before)
        self.after = patch.guarded("constants", self._after)

    def device(self, device: Any) -> None:
        """A device trains."""
        self.off = self.off or device.type != "cpu"

    def give_up(self, args: Args, kwargs: Kwargs) -> None:
        """The script compiles: a mode would be part of what the compiled code is guarded by."""
        self.off = True
        if self.asked:
            self._finish(give_up=True)

    # ------------------------------------------------------------ from update to update

    def ask(self, recorder: Recorder, loss: Any) -> None:
        """Before some backwards: look at steps after this one, if a pair is due."""
        if self.asked or self.off or self.steps.schedule.backwards < self.turn:
            return
        self.asked = True
        self.turn = 2 * self.steps.schedule.backwards
        self.updates = 0
        self.steps.moments.update = [*self.steps.moments.update, self.border]

    def _at_border(self, recorder: Recorder, optimizer: int) -> None:
        """A step ends with the optimizer that came last to its first update: it ends a GAN's step."""
        self.updates += 1
        under_way = self.step is not None
        if under_way:  # the row after the last step as well: telling costs
            disturb(recorder)
        over = recorder.off or recorder.held
        if not over and optimizer != len(self.steps.updates.numbers) and self.updates < UPDATES_MAX:
            return
        if not under_way:
            busy = over or self.steps.modules.watcher is not True or self.profilers.busy(self.torch)
            if busy or self.updates < LEAD:
                return
            if not self._may():
                self._finish(give_up=True)
                return
            disturb(recorder)
            self._begin()
        elif over:
            self._finish()
        elif self.first is None:
            self._next()
            self.begin_ns = recorder.since
        else:
            share = self._tell(recorder.since - self.begin_ns)
            self._finish(give_up=self.pairs >= ENOUGH and share < LITTLE)

    def _may(self) -> bool:
        """Whether no call of the script can tell that a mode is there."""
        return not (
            self.off
            or compiles()
            or self.torch.jit.is_tracing()
            or self.torch._C._len_torch_function_stack()  # the script's own end in the order they began
        )

    def _begin(self) -> None:
        if self.mode is None:
            self.mode = mode_of(self)
            os.register_at_fork(after_in_child=patch.guarded("constants", self._remove))
        self.owner = get_ident()
        self.first = None
        self.step = StepCalls(self.torch, self.leaves)
        self.updates = 0
        self.has_torch_function = self.overrides.has_torch_function
        self.overrides.has_torch_function = self._has_torch_function
        self.overrides._push_mode(self.mode)

    def _next(self) -> None:
        """From the first step of a pair to the second."""
        assert self.step is not None
        self.step.close()
        self.first = self.step.by_key()
        self.step = StepCalls(self.torch, self.leaves, self.first)
        self.updates = 0

    def _finish(self, give_up: bool = False) -> None:
        """The pair is over, or cannot be had."""
        self._remove()
        self.asked = False
        self.first = None
        if self.pairs >= PAIRS or give_up:
            self.off = True
        self.steps.moments.update = [call for call in self.steps.moments.update if call is not self.border]

    def _remove(self) -> None:
        """Take the mode away, wherever it is among those that the script has begun since."""
        if self.step is None:
            return
        self.step = None
        self.overrides.has_torch_function = self.has_torch_function
        above: List[Any] = []
        while self.torch._C._len_torch_function_stack():
            mode = self.overrides._pop_mode()
            if mode is self.mode:
                break
            above.append(mode)
        for mode in reversed(above):
            self.overrides._push_mode(mode)

    def _has_torch_function(self, tensors: Any) -> bool:
        """torch's own question, answered as without our mode: layers for inference choose their way by it."""
        if self.overrides._get_current_function_mode() is not self.mode:
            return bool(self.has_torch_function(tensors))
        self.overrides._pop_mode()
        try:
            return bool(self.has_torch_function(tensors))
        finally:
            self.overrides._push_mode(self.mode)

    # ------------------------------------------------------------ calls

    def _before(self, function: Any, args: Args, kwargs: Kwargs) -> Optional[Tuple[StepCalls, Any, int]]:
        recorder = self.steps.session.recorder
        if self.step is None or recorder is None or get_ident() != self.owner or recorder.current in TRAINED:
            return None
        begin = clock()
        seen = self.step.before(function, args, kwargs)
        now = clock()
        self.step.own_ns += now - begin
        return self.step, seen, now

    def _after(self, token: Tuple[StepCalls, Any, int], function: Any, result: Any) -> None:
        now = clock()
        step, seen, begin = token
        step.after(seen, function, result, now - begin)
        step.own_ns += clock() - now

    # ------------------------------------------------------------ telling

    def _tell(self, step_ns: int) -> float:
        """Write down what both steps of this pair had in common, and some pair before; the share it takes."""
        assert self.step is not None
        assert self.first is not None
        self.step.close()
        self.pairs += 1
        same = self.step.same(self.first)
        proven = [call for call in same if self.proven.get(call.key) == call.shows and call.reused]
        lines: Dict[str, List[ConstantCall]] = {}
        for call in proven:
            lines.setdefault(str(call.line), []).append(call)
        session = self.steps.session
        session.write(
            ConstantsLookEvent(
                look=self.pairs,
                step_s=max(0, step_ns - self.step.own_ns) / 1e9,
                calls=self.step.calls,
                constants=len(proven),
                seconds=sum(call.ns for call in proven) / 1e9,
                lines=len(lines),
            )
        )
        for calls in sorted(lines.values(), key=_ns, reverse=True)[:LINES_MAX]:
            names: Dict[str, List[ConstantCall]] = {}
            for call in calls:
                names.setdefault(call.name, []).append(call)
            session.write(
                ConstantsLineEvent(
                    look=self.pairs,
                    seconds=_ns(calls) / 1e9,
                    calls=len(calls),
                    names=sorted(names, key=lambda name: -_ns(names[name]))[:NAMES_MAX],
                    at=calls[0].line,
                )
            )
        if len(self.proven) < KEYS_MAX:
            self.proven.update((call.key, call.shows) for call in same)
        return _ns(proven) / max(1, step_ns - self.step.own_ns)


@observer
def constants(watch: Watch) -> None:
    """Look for calls that give the same in every step, in a few pairs of steps."""
    found = Constants(watch.steps, watch.profilers)
    watch.on_device("constants", found.device)
    watch.before_some_backwards("constants", found.ask)
    watch.wrap(watch.torch, "compile", found.give_up, _nothing, "constants")


def _nothing(token: Any, args: Args, result: Any) -> None:
    return None


def mode_of(constants: Constants) -> Any:
    """A mode of torch's that shows each call to `constants`, and lets it through as it is."""

    base: Any = constants.torch.overrides.TorchFunctionMode

    class Looking(base):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            token = constants.before(function, args, kwargs)
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                ours = error.__traceback__  # alone, where the function is not written in Python
                error.__traceback__ = ours.tb_next if ours is not None else None
                raise
            if token is not None:
                constants.after(token, function, result)
            return result

    return Looking()


def disturb(recorder: Recorder) -> None:
    """The row that is open is not to be timed: what we do costs more than usual in it."""
    recorder.flags |= DISTURBED
    recorder.cpu_due = True


def _ns(calls: List[ConstantCall]) -> int:
    return sum(call.ns for call in calls)
