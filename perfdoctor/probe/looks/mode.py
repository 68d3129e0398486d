"""The mode of torch's that shows each call of its functions to who looks at them."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Optional, Protocol

from .. import stand_ins
from ..recorder import clock
from ..wrapping import Args, Kwargs


class Looks(Protocol):
    """Who looks at calls."""

    torch: Any

    def stand_in(self, frame: Any) -> Any:
        """What calls a function in place of the script's frame; None: nothing special."""

    def before(self, begin_ns: int, function: Any, args: Args, kwargs: Kwargs) -> Any:
        """A call begins; what is returned goes to `after`, None: nothing more to see."""

    def after(self, token: Any, function: Any, result: Any) -> None:
        """It has ended."""


def mode_of(looks: Looks) -> Any:
    """A mode of torch's that shows each call to `looks`, and lets it through as it is."""

    base: Any = looks.torch.overrides.TorchFunctionMode

    class Looking(base):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            try:
                begin = clock()
                kwargs = kwargs or {}
                if "_stacklevel" in kwargs:  # of a warning: two frames of ours and two of torch's lie between
                    kwargs = {**kwargs, "_stacklevel": kwargs["_stacklevel"] + 4}
                call = looks.stand_in(sys._getframe()) or stand_ins.ANYWHERE
                token = looks.before(begin, function, args, kwargs)
                result = call(function, args, kwargs)
                if token is not None:
                    looks.after(token, function, result)
                return result
            except BaseException as error:  # of the function, or Ctrl-C in code of ours
                error.__traceback__ = _below_ours(error.__traceback__)
                raise

    return Looking()


def _below_ours(traceback: Optional[TracebackType]) -> Optional[TracebackType]:
    """The traceback from the called function on; None where that is not written in Python."""
    below = traceback.tb_next if traceback is not None else None
    return below.tb_next if below is not None and stand_ins.stands_in(below.tb_frame.f_code) else below
