"""Calls that train nothing and are given what looks like the two before: the moves of a policy that plays.

Between two updates there may be hundreds, each of a small model. Nothing new is to be learnt from them: they
are told in place, as usual calls that train are. What they are given is compared by shapes.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from ...wire.step_rows import FORWARD, OTHER, VALIDATION
from .. import patch
from ..recorder import EVAL_FORWARD, Recorder, clock
from ..wrapping import Args, Kwargs
from .known_modules import KnownModule, Shapes
from .samples import is_single

Call = Callable[[Any, Args, Recorder, KnownModule], Any]

NAME = "module_call"


class SteadyCalls:
    """Tells such calls from others, and tells their borders; `phases` sees all calls."""

    def __init__(self, phases: Any) -> None:
        self.phases = phases
        self.moments = phases.thread.moments
        self.samples, self.totals, self.updates = phases.samples, phases.evals.totals, phases.updates
        self.tensor = phases.torch.Tensor
        self.is_recording, self.is_tracing = phases.is_recording, phases.is_tracing
        self.function_modes = phases.function_modes

    def note(self, known: KnownModule, args: Args, kwargs: Kwargs) -> None:
        """Remember what a call that trains nothing was given; two that are alike make the next one steady.

        The second was shown to all who look at inputs that differ.
        """
        shapes = None if kwargs or self.function_modes() else self._shapes(args)
        known.steady = shapes if shapes == known.given else None
        known.given = shapes
        known.shape = (shapes and shapes[0]) or ()

    def _shapes(self, args: Args) -> Optional[Shapes]:
        """The shapes of what a module was called with, which comes first; None where they cannot be told."""
        tensors = [one if type(one) is self.tensor else None for one in args[1:]]
        if not tensors or tensors[0] is None or any(one is not None and one.is_nested for one in tensors):
            return None
        return tuple(None if one is None else one.shape for one in tensors)

    def told(self, original: Callable[..., Any]) -> Callable[..., Optional[Call]]:
        """Answers what to call instead of a known module, if it can be told in place."""
        of_phase = {
            FORWARD: self._told(original, FORWARD, NAME),
            EVAL_FORWARD: self._told(original, EVAL_FORWARD, NAME),
            VALIDATION: self._told(original, VALIDATION, "validation"),
        }
        moments = self.moments

        def untold(self: Any, args: Args, recorder: Recorder, known: KnownModule) -> Any:
            try:
                return original(self, *args)
            except BaseException as error:
                patch.cut(error)
                raise

        bare = patch.finished(untold, original, NAME)

        def call_of(module: Any, args: Args, kwargs: Kwargs, known: KnownModule) -> Optional[Call]:
            if kwargs or moments.evaluated or moments.evaluating:
                return None
            if not known.has_parameters:  # an activation or a loss
                return bare
            phase = self._phase(module, args, known)
            return None if phase is None else of_phase[phase]

        return patch.part("steady_calls", call_of)

    def _phase(self, module: Any, args: Args, known: KnownModule) -> Optional[int]:
        """The phase of a call, if it is steady and nobody asks for more."""
        steady = known.steady
        if steady is None or len(args) != len(steady):
            return None
        if self.is_recording() or self.is_tracing() or self.function_modes():
            return None
        tensor = self.tensor
        for one, shape in zip(args, steady):
            if type(one) is tensor:
                if one.is_nested or one.shape != shape:
                    return None
            elif shape is not None:
                return None
        if not module.training:
            if not known.trained:
                return EVAL_FORWARD
            return VALIDATION if self.totals["calls"] else None  # the first is told with its lines
        samples = self.samples
        if not known.trained or known.layout is not None or (samples.loader_delivers and samples.pending):
            return None
        return FORWARD

    def _told(self, original: Callable[..., Any], phase: int, name: str) -> Call:
        """`original` between the borders of a phase, which stack samples know by a name."""
        phases, samples, totals, updates = self.phases, self.samples, self.totals, self.updates

        def wrapper(self: Any, args: Args, recorder: Recorder, known: KnownModule) -> Any:
            try:
                recorder.since = clock()  # the time before is in no phase
                if recorder.undecided:
                    if phase == VALIDATION and not phases.derived_call:
                        recorder.decide(OTHER, OTHER, VALIDATION)
                    else:
                        recorder.set_aside(OTHER, OTHER)
                recorder.current = phase
                recorder.switches += 1
                recorder.calls += 1
                try:  # a signal's handler may raise anywhere from here on
                    phases.in_call = True
                    if phase == FORWARD and not samples.loader_delivers:
                        at, shape = known.dimension, known.shape
                        sizes = len(shape)
                        one_loss = not updates.several_losses or len(updates.numbers) <= 1
                        single = sizes == 1 and is_single(args[0])
                        if one_loss and at is not None and sizes > at and not single:
                            samples.pending = shape[at]
                    return original(self, *args)
                finally:
                    phases.in_call = False
                    if recorder.stack:
                        updates.unwind(recorder, 0)
                    now = clock()
                    ns = now - recorder.since
                    recorder.spent[recorder.current] += ns
                    recorder.since = now
                    recorder.current = OTHER
                    if phase == VALIDATION:
                        totals["calls"] += 1
                        totals["seconds"] += ns / 1e9
                        phases.evaluated = None
                        samples.evaluated = True
                    elif phase == EVAL_FORWARD:
                        recorder.undecided = True
            except BaseException as error:
                patch.cut(error)
                raise

        return patch.finished(wrapper, original, name)
