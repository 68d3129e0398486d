"""What a step computes although it comes out the same in every step.

What is told was constant in both steps of a looked-at pair, and in an earlier pair too.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ...wire.events.constants import ConstantsLineEvent, ConstantsLookEvent
from ...wire.step_rows import FORWARD
from ..looks.calls import CallViewer
from ..looks.constants import OuterTensors, StepCalls
from ..looks.seen_calls import costliest_lines, costliest_names, number_of_lines, seconds_of
from ..observer import Watch, observer
from ..wrapping import Args, Kwargs

KEYS_MAX = 20_000  # constant calls that are remembered


class Constants(CallViewer):
    """The constant calls of one process."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.leaves = OuterTensors()
        self.first: Dict[int, Any] = {}  # constant calls of a pair's first step
        self.step: Optional[StepCalls] = None  # under way
        self.proven: Dict[int, Any] = {}  # constant in an earlier pair
        self.phase = -1  # of the last call
        self.called_ns = 0

    def begin(self) -> None:
        """Look for calls with constant inputs."""
        self.step = StepCalls(self.watch.torch, self.leaves)

    def next(self) -> None:
        """Look for the same calls again."""
        assert self.step is not None
        self.step.close()
        self.first = self.step.by_key()
        self.called_ns = 0
        self.step = StepCalls(self.watch.torch, self.leaves, self.first)

    def before(self, phase: int, function: Any, args: Args, kwargs: Kwargs, gap_ns: int) -> Any:
        """What goes in; a call that outlives its step still belongs to it."""
        if phase == self.phase == FORWARD:  # elsewhere a wait for data may lie between
            self.called_ns += gap_ns
        self.phase = phase
        return self.step, self.step.before(function, args, kwargs, gap_ns) if self.step is not None else None

    def after(self, seen: Tuple[Optional[StepCalls], Any], function: Any, result: Any, ns: int) -> None:
        """What came out."""
        step, call = seen
        self.called_ns += ns
        if step is not None:
            step.after(call, function, result, ns)

    def tell(self, look: int, step_s: float) -> float:
        """Write down what both steps of this pair had in common, and some pair before."""
        assert self.step is not None
        self.step.close()
        same = self.step.same(self.first)
        proven = [call for call in same if self.proven.get(call.key) == call.shows and call.reused]
        self.watch.write(
            ConstantsLookEvent(
                look=look,
                step_s=step_s,
                calls=self.step.calls,
                constants=len(proven),
                seconds=seconds_of(proven),
                lines=number_of_lines(proven),
                called_s=self.called_ns / 1e9,
            )
        )
        for calls in costliest_lines(proven):
            self.watch.write(
                ConstantsLineEvent(
                    look=look,
                    seconds=seconds_of(calls),
                    calls=len(calls),
                    names=costliest_names(calls),
                    at=calls[0].line,
                )
            )
        if len(self.proven) < KEYS_MAX:
            self.proven.update((call.key, call.shows) for call in same)
        return seconds_of(proven) / step_s if step_s > 0 else 1.0

    def end(self) -> None:
        """Forget the pair."""
        self.first = {}
        self.step = None


@observer
def constants(watch: Watch) -> None:
    """Look for calls that give the same in every step, in a few pairs of steps."""
    watch.on_looked_at_calls("constants", Constants(watch))
