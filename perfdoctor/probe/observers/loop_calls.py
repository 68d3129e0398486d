"""What the training loop does again in each step: calls with the arguments and the result of earlier ones.

From an update to the next forward a few steps pass under a profile function: see UserCalls. There a loop that
has no DataLoader makes its batches. One that has is left alone: its items are looked at as they are made.
"""

from __future__ import annotations

import os
from _thread import get_ident
from typing import Optional

from ...wire.events.loop_calls import LoopCallsEvent
from ...wire.step_rows import BACKWARD, DATA_WAIT, DISTURBED, FORWARD, OPTIMIZER
from .. import patch
from ..looks.calls import FIRST, FIRST_NS, PART
from ..looks.user_calls import CALLS_MAX, CHECKSUMS_MAX, UserCalls
from ..observer import Watch, observer
from ..profiler.users_profiler import compiles
from ..recorder import Recorder

NAME = "loop_calls"
STEPS_ENOUGH = 12
LEAD = 2  # updates from asking to looking: looks that were asked for then, too, are over
NS_PER_EVENT = 100_000  # of the run, for each further event of the profile function: half a percent of it
UPDATES_MAX = 64  # while one step is waited for
# Phases that a look does not enter.
ENDS = (DATA_WAIT, FORWARD, BACKWARD, OPTIMIZER)


class LoopCalls:
    """The looked-at steps of one process."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.moments = watch.moments
        self.seen = UserCalls(NAME, in_c=False)
        self.turn = FIRST  # the backward from which the next look is due
        self.turn_ns = FIRST_NS  # since `first_ns`, from which a part of them is enough
        self.steps = self.updates = self.owner = 0
        self.first_ns: Optional[int] = None  # when it was first asked whether a look is due
        self.asked = self.looking = False
        self.border = patch.guarded(NAME, self._at_border)
        os.register_at_fork(after_in_child=patch.guarded(NAME, self.seen.end))

    def ask(self, recorder: Recorder, loss: object) -> None:
        """Before some backwards: look at a step after this one, if a look is due."""
        if self.first_ns is None:
            self.first_ns = recorder.since
        if self.moments.batches:  # that a loader delivered
            return
        backwards = self.watch.steps.schedule.backwards
        slow = recorder.since - self.first_ns >= self.turn_ns and backwards * PART >= self.turn
        if self.asked or self.steps >= STEPS_ENOUGH or not (slow or backwards >= self.turn):
            return
        # A step may call so many functions that one look takes all that is given away at first.
        self.seen.most = CALLS_MAX + (recorder.since - self.first_ns) // NS_PER_EVENT
        if self.seen.events >= self.seen.most or self.seen.checksums > CHECKSUMS_MAX:
            return
        self.seen.over = False
        self.turn = max(self.turn, backwards + backwards // 2)
        self.turn_ns += self.turn_ns // 2
        self.asked = True
        self.updates = 0
        self.moments.update = [*self.moments.update, self.border]

    def _at_border(self, recorder: Recorder, optimizer: int) -> None:
        """Begin with the optimizer that came last to its first update: it ends a GAN's step."""
        self.updates += 1
        if self.looking:
            self._finish()
            return
        ends = optimizer == len(self.watch.steps.updates.numbers)
        if self.updates < LEAD or not (ends or self.updates >= UPDATES_MAX):
            return
        if self._is_busy(recorder) or not self.seen.begin({}, lambda: recorder.current in ENDS):
            if self.updates >= UPDATES_MAX:
                self._finish()
            return
        self.looking = True
        self.owner = get_ident()
        recorder.flags |= DISTURBED
        recorder.cpu_due = True

    def _is_busy(self, recorder: Recorder) -> bool:
        """Whether somebody else looks, is about to, or compiles: a profile function would be seen."""
        watch = self.watch
        looked_at = watch.looks.asked or watch.steps.modules.watcher is not True
        return (
            recorder.off
            or recorder.held
            or bool(looked_at)
            or watch.profilers.busy(watch.torch)
            or compiles()
        )

    def _finish(self) -> None:
        """The next update is there, or no step can be had."""
        if self.looking and get_ident() != self.owner:
            return
        if self.looking:
            self.seen.end()
            self.steps += 1
            self.watch.write(LoopCallsEvent(steps=self.steps, calls=self.seen.told()[1]))
        self.asked = self.looking = False
        self.moments.update = [call for call in self.moments.update if call is not self.border]
        if self.steps >= STEPS_ENOUGH:
            self.seen.clear()


@observer
def loop_calls(watch: Watch) -> None:
    """Look at a few steps of the thread that trains, until the forward begins."""
    watch.before_some_backwards(NAME, LoopCalls(watch).ask)
