"""In a loop without modules: which names hold results of the forward pass."""

from __future__ import annotations

from typing import Any, Callable

from ...wire.events.script import GradNamesEvent
from ..containers import is_a
from ..frame_names import names_of
from ..looks.op_recording import unseen
from ..session import Session
from ..user_frames import line_of, user_frame

AT_BACKWARD = 3  # names are read there: the first backwards may be warm-up


class ForwardNames:
    """Reads names once, where no module was called in train mode by then."""

    def __init__(self, session: Session, tensor: type, any_module_trained: Callable[[], bool]) -> None:
        self.session = session
        self.tensor = tensor
        self.any_module_trained = any_module_trained
        self.backwards = 0
        self.wanted = True
        self.is_result = unseen(self._is_result)

    def before_backward(self) -> None:
        """Count, and at one backward read."""
        self.backwards += 1
        self.wanted = self.backwards < AT_BACKWARD
        if self.wanted or self.any_module_trained():
            return
        frame = user_frame()
        if frame is None:
            return
        names = sorted(name for name, value in names_of(frame).items() if self.is_result(value))
        self.session.write(GradNamesEvent(names=names, function=frame.f_code.co_name, at=line_of(frame)))

    def _is_result(self, value: Any) -> bool:
        return is_a(value, self.tensor) and value.requires_grad
