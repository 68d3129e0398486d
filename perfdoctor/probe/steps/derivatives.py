"""Backward passes by `autograd.grad` with respect to data: forces, penalties, adversarial samples.

They are made to train or to evaluate. Either way there is no loss to read, and no sample was trained on yet.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

from ...wire.step_rows import BACKWARD, FORWARD, VALIDATION
from ..recorder import AFTER_BACKWARD, EVAL_FORWARD, Recorder
from ..wrapping import Args, Kwargs
from .accumulation import find_leaf
from .modules import ModuleCallPhases
from .thread import TrainingThread
from .updates import Updates

Token = Tuple[Recorder, int, bool, Kwargs, int]  # ..., whether it evaluates, ..., when it began

SEARCH_NODES = 200  # how far to look for a parameter: one is found soon where there are any


class Derivatives:
    """Those of the thread that trains."""

    def __init__(self, thread: TrainingThread, updates: Updates, modules: ModuleCallPhases) -> None:
        self.session = thread.session
        self.derived = thread.moments.derived
        self.updates = updates
        self.modules = modules
        self.tensor, self.parameter = modules.torch.Tensor, modules.torch.nn.Parameter

    def is_of_data(self, args: Args, kwargs: Kwargs) -> bool:
        """Whether parameters lead to what is derived, and it is derived with respect to none of them."""
        if self.updates.in_backward:
            return False
        given = args[1] if len(args) > 1 else kwargs.get("inputs")
        inputs = given if isinstance(given, (list, tuple)) else (given,)  # an iterator is not ours to use up
        if not all(isinstance(one, self.tensor) and not isinstance(one, self.parameter) for one in inputs):
            return False
        leaf = find_leaf(args[0] if args else kwargs.get("outputs"), SEARCH_NODES, inputs)
        return isinstance(leaf, self.parameter)

    def before(self, args: Args, kwargs: Kwargs) -> Optional[Token]:
        """Enter backward, or go on with an evaluation; a derivative inside of one is a part of it."""
        recorder = self.session.recording()
        if recorder is None or recorder.current in (VALIDATION, EVAL_FORWARD):
            return None
        evaluates = self.modules.before_derivative(recorder)
        recorder.enter(EVAL_FORWARD if evaluates else BACKWARD)
        if evaluates:
            recorder.set_aside(recorder.base, recorder.base)
        else:
            recorder.decide(FORWARD, FORWARD, FORWARD)
        self.updates.in_backward = True
        return recorder, len(recorder.stack), evaluates, kwargs, recorder.since

    def after(self, token: Token, args: Args, result: Any) -> None:
        """Leave it. What is done with gradients may follow."""
        recorder, depth, evaluates, kwargs, began_ns = token
        self.updates.in_backward = self.updates.made_in_backward = False
        self.updates.unwind(recorder, depth)
        if evaluates:
            recorder.leave()
        else:
            recorder.leave_to(AFTER_BACKWARD)
            recorder.backwards += 1
            for call in self.derived:
                call(args, kwargs, result, recorder.since - began_ns)
