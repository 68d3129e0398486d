"""A look at each call of torch's functions, in a few steps, for all who have something to see there.

In those steps a mode of torch's sees each call of its Python functions: what goes in, and what comes out. A
mode changes nothing about the call; operators inside are the same as without it.

Two steps in a row are looked at together: a batch that is kept in memory comes again at some later step, but
not in the next one.
"""

from __future__ import annotations

import os
from _thread import get_ident
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

from ...wire.step_rows import BACKWARD, DISTURBED, OPTIMIZER
from .. import patch, stand_ins
from ..compile_calls import before_compiling
from ..profiler.users_profiler import UsersProfilers, compiles
from ..recorder import Recorder, clock
from ..steps.updates import NO_TASK
from ..wrapping import Args, Kwargs
from .mode import mode_of
from .op_recording import recording_question, unseen

if TYPE_CHECKING:
    from ..steps.steps import StepTracker

FIRST = 64  # the backward that asks for the first pair; each next one comes after twice as many
# Where steps take long a run may never get so far: a part of them does after this time, which doubles, too.
# So three pairs fit into two seconds of steps of 10 ms.
FIRST_NS = 300_000_000
PART = 4  # one in so many
PAIRS = 8  # in a whole run
ENOUGH = 3  # pairs, where what is looked for takes next to no time
LITTLE = 0.01  # of a step
# What looking may take: of one step, whose rest is not shown, and, from the fourth pair on, of the time since
# the first one was asked for. A step of many micro-batches makes thousands of calls.
STEP_NS = 25_000_000
SHARE = 0.005
TRAINED = (BACKWARD, OPTIMIZER)  # phases in which all depends on parameters
LEAD = 3  # updates from asking to looking: a look at the calls of modules, asked for then too, is over
UPDATES_MAX = 64  # while one step is waited for: the optimizer that ends it may have had its last
PASSES_MAX = 64  # in eval mode in one step, where each step makes some; more are an evaluation, or serve


class CallViewer:
    """What an observer sees in a pair of steps. Backward and the update are not shown."""

    def begin(self) -> None:
        """The first step of a pair begins."""

    def next(self) -> None:
        """It has ended, and the second one begins."""

    def before(self, phase: int, function: Any, args: Args, kwargs: Kwargs, gap_ns: int) -> Any:
        """A call begins, in this phase, so long after the one before it.

        What is returned goes to `after`, unless it is None.
        """

    def after(self, seen: Any, function: Any, result: Any, ns: int) -> None:
        """A call has ended, after so many nanoseconds."""

    def tell(self, look: int, step_s: float) -> float:
        """The second step has ended: write down what this pair, counted from 1, has shown.

        `step_s` is the time of the second step without what looking took. Returns which share of it took what
        was looked for.
        """
        return 0.0

    def end(self) -> None:
        """The pair is over, or was cut short."""


class CallLooks:
    """The looked-at pairs of steps of one process."""

    def __init__(self, steps: StepTracker, profilers: UsersProfilers) -> None:
        self.steps = steps
        self.profilers = profilers
        self.torch = steps.torch
        self.overrides = steps.torch.overrides
        self.viewers: List[GuardedViewer] = []
        self.mode: Any = None
        self.turn = FIRST  # the backward from which the next pair is due
        self.turn_ns = FIRST_NS  # since `first_ns`, from which a part of them is enough
        self.next_turn = FIRST  # the turn once the pair that was asked for has been had
        self.first_ns: Optional[int] = None  # the first time that was asked whether a pair is due
        self.pairs = 0
        self.passes = 0  # in eval mode, in that step
        self.passes_max = 0  # the first pass is most often that of an evaluation
        self.off = False  # an accelerator trains: the host's time for a call is not the call's
        self.asked = False
        self.updates = 0  # since a pair was asked for, or since a step of it began
        self.looking = 0  # the step of a pair that is under way, 1 or 2
        self.over = False  # that pair is, but its mode could not be taken away where that was found
        self.owner = self.begin_ns = 0
        self.own_ns = 0  # what looking took in that step
        self.full_ns = 0  # when that was as much as it may, or 0
        self.spent_ns = 0  # what it took in all steps before
        self.ended_ns = 0  # the last call that was shown, of this step and without an update since; 0: none
        self.has_torch_function: Any = None
        self.answers = self._has_torch_function  # one object: TorchScript knows it by its identity
        self.is_recording = recording_question()
        self.stand_ins = stand_ins.StandIns(self.overrides)
        self.stand_in = patch.guarded("call_looks", self.stand_ins.of_caller)
        self.border = patch.guarded("call_looks", self._at_border)
        self.evaluated = patch.guarded("call_looks", self._at_evaluation)
        self.before = patch.guarded("call_looks", self._before)
        self.after = patch.guarded("call_looks", self._after)
        self.show = unseen(self._show)

    def add(self, name: str, viewer: CallViewer) -> None:
        """Show `viewer` the looked-at steps; an error of its own ends its part only."""
        if not self.viewers:
            self._install()
        self.viewers.append(GuardedViewer(name, viewer))

    def _install(self) -> None:
        self.steps.moments.device.append(patch.guarded("call_looks", self._device))
        self.steps.schedule.add("call_looks", self._ask)
        before_compiling(self.torch, "call_looks", self._give_up)

    def _device(self, device: Any) -> None:
        """A device trains."""
        self.off = self.off or device.type != "cpu"

    def _give_up(self, args: Args, kwargs: Kwargs) -> None:
        """The script compiles: a mode would be part of what the compiled code is guarded by."""
        self.off = True
        if self.asked:
            self._finish(give_up=True)

    # ------------------------------------------------------------ from update to update

    def _ask(self, recorder: Recorder, loss: Any) -> None:
        """Before some backwards: look at steps after this one, if a pair is due."""
        if self.first_ns is None:
            self.first_ns = recorder.since
        backwards = self.steps.schedule.backwards
        slow = recorder.since - self.first_ns >= self.turn_ns and backwards * PART >= self.turn
        if self.asked or self.off or not (slow or backwards >= self.turn):
            return
        if self.pairs >= ENOUGH and self.spent_ns > SHARE * (recorder.since - self.first_ns):
            return
        self.asked = True
        self.next_turn = 2 * max(self.turn, backwards)
        self.updates = 0
        self.steps.moments.update = [*self.steps.moments.update, self.border]

    def _at_border(self, recorder: Recorder, optimizer: int) -> None:
        """A step ends with the optimizer that came last to its first update: it ends a GAN's step."""
        self.updates += 1
        if self.looking:  # the row after the last step as well: telling costs
            disturb(recorder)
        if self.over:
            self._finish()
            return
        over = recorder.off or recorder.held or self.is_recording()
        if not over and optimizer != len(self.steps.updates.numbers) and self.updates < UPDATES_MAX:
            return
        if not self.looking:
            busy = over or self.steps.modules.watcher is not True or self.profilers.busy(self.torch)
            if busy or self.updates < LEAD:
                return
            if self.steps.updates.closing or not self._may():
                self._finish(give_up=True)
                return
            disturb(recorder)
            self._begin()
        elif not self._is_reachable():
            return
        elif over:
            self._finish()
        elif self.looking == 1:
            self._next()
            self.begin_ns = recorder.since
        else:
            end_ns = self.full_ns or recorder.since
            share = self._tell(max(0, end_ns - self.begin_ns - self.own_ns) / 1e9)
            self._finish(give_up=self.pairs >= ENOUGH and share < LITTLE)

    def _may(self) -> bool:
        """Whether no call of the script can tell that a mode is there."""
        return not (
            self.off
            or compiles()
            or self.is_recording()
            or self.torch._C._len_torch_function_stack()  # the script's own end in the order they began
        )

    def _begin(self) -> None:
        if self.mode is None:
            # TorchScript compiles code that asks this to an operator of its own.
            self.torch.jit._builtins._register_builtin(self.answers, "aten::has_torch_function")
            self.mode = mode_of(self)
            os.register_at_fork(after_in_child=patch.guarded("call_looks", self._remove))
        self.owner = get_ident()
        self.updates = self.own_ns = self.ended_ns = self.full_ns = self.passes = 0
        for viewer in self.viewers:
            viewer.begin()
        self.looking = 1
        self.steps.moments.evaluating = [*self.steps.moments.evaluating, self.evaluated]
        self.has_torch_function = self.overrides.has_torch_function
        self.overrides.has_torch_function = self.answers
        self.overrides._push_mode(self.mode)

    def _next(self) -> None:
        """From the first step of a pair to the second."""
        self.looking = 2
        self.spent_ns += self.own_ns
        self.updates = self.own_ns = self.ended_ns = self.full_ns = self.passes = 0
        for viewer in self.viewers:
            viewer.next()

    def _at_evaluation(self, surely: bool) -> None:
        """A model evaluates, or may, which may go on for ever, or is traced."""
        recorder = self.steps.session.recording()
        if not self.looking or get_ident() != self.owner:
            return
        self.passes += 1
        if self.passes > (self.passes_max if surely else PASSES_MAX) or self.is_recording():
            self.passes_max = PASSES_MAX  # where each step evaluates, the next pair is had all the same
            self.turn = self.next_turn
            if recorder is not None:
                disturb(recorder)
            self._finish()

    def _tell(self, step_s: float) -> float:
        """Have all viewers write down what they saw; the share of what they look for."""
        self.pairs += 1
        self.spent_ns += self.own_ns
        self.turn = self.next_turn  # a pair that a window cut short keeps its turn
        self.turn_ns *= 2
        return max(viewer.tell(self.pairs, step_s) or 0.0 for viewer in self.viewers)

    def _finish(self, give_up: bool = False) -> None:
        """The pair is over, or cannot be had."""
        if self.pairs >= PAIRS or give_up:
            self.off = True
        self._remove()
        if self.over:
            return
        self.asked = False
        moments = self.steps.moments
        moments.update = [call for call in moments.update if call is not self.border]

    def _is_reachable(self) -> bool:
        """Whether the mode can be taken away here.

        Modes belong to a thread. What autograd calls, and what is called through the mode itself, ends with
        torch putting back those that were there before.
        """
        if get_ident() != self.owner or self.steps.updates.graph_task() != NO_TASK:
            return False
        own = self.torch._C
        places = range(own._len_torch_function_stack())
        return any(own._get_function_stack_at(at) is self.mode for at in places)

    def _remove(self) -> None:
        """Take the mode away, wherever it is among those that the script has begun since."""
        if not self.looking:
            return
        self.over = not self._is_reachable()
        if self.over:
            return  # it shows nothing any more, and goes at the next border
        self.looking = 0
        moments = self.steps.moments
        moments.evaluating = [call for call in moments.evaluating if call is not self.evaluated]
        self.stand_ins.clear()
        for viewer in self.viewers:
            viewer.end()
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

    def _before(
        self, begin: int, function: Any, args: Args, kwargs: Kwargs
    ) -> Optional[Tuple[List[Any], int]]:
        recorder = self.steps.session.recorder
        if not self.looking or recorder is None or self.full_ns or get_ident() != self.owner:
            return None
        if self.over or self.is_recording():
            return None
        if self.own_ns > STEP_NS:
            self.full_ns = begin
            return None
        phase = recorder.current
        if phase in TRAINED:
            self.ended_ns = 0
            return None
        gap_ns = begin - self.ended_ns if self.ended_ns else 0
        seen = [viewer.before(phase, function, args, kwargs, gap_ns) for viewer in self.viewers]
        now = clock()
        self.own_ns += now - begin
        return seen, now

    def _after(self, token: Tuple[List[Any], int], function: Any, result: Any) -> None:
        now = clock()
        all_seen, begin = token
        self.show(all_seen, function, result, now - begin)
        self.ended_ns = clock()
        self.own_ns += self.ended_ns - now

    def _show(self, all_seen: List[Any], function: Any, result: Any, ns: int) -> None:
        for viewer, seen in zip(self.viewers, all_seen):
            if seen is not None:
                viewer.after(seen, function, result, ns)


class GuardedViewer:
    """A viewer whose errors end its own part only."""

    def __init__(self, name: str, viewer: CallViewer) -> None:
        self.begin = patch.guarded(name, unseen(viewer.begin))
        self.next = patch.guarded(name, unseen(viewer.next))
        self.before = patch.guarded(name, viewer.before)
        self.after = patch.guarded(name, viewer.after)
        self.tell = patch.guarded(name, unseen(viewer.tell))
        self.end = patch.guarded(name, unseen(viewer.end))


def disturb(recorder: Recorder) -> None:
    """The row that is open is not to be timed: what we do costs more than usual in it."""
    recorder.flags |= DISTURBED
    recorder.cpu_due = True
