"""Calls of torch's functions from a frame that looks like the script's line, where one of ours lies between.

A warning has the file, the line, the module and the registry of what was shown already from the frame some
levels up, or from the innermost one where C++ warns. With a frame of ours there it would be shown once more,
under our name, and the script's own filters for a module would not hold.
"""

from __future__ import annotations

import sys
import types
from typing import Any, Callable, Dict, Optional, Tuple

from .wrapper_code import PASSED_OVER
from .wrapping import Args, Kwargs

Call = Callable[[Callable[..., Any], Args, Kwargs], Any]

MARK = "perfdoctor_call"  # the first local name of a frame that stands in
# On one line: it is the one that is exchanged for the script's. Names no global: those are the script's, too.
_CODE = (lambda perfdoctor_call, args, kwargs: perfdoctor_call(*args, **kwargs)).__code__
# The same call, from no line of the script's. Stack samples know by the name what a mode lets through.
ANYWHERE: Call = types.FunctionType(_CODE.replace(co_name="__torch_function__"), {})


def stands_in(code: types.CodeType) -> bool:
    """Whether a frame of this code only looks like one of the script's."""
    return code.co_varnames[:1] == (MARK,)


class StandIns:
    """The stand-ins of lines, kept until `clear`."""

    def __init__(self, overrides: Any) -> None:
        self._handling = getattr(overrides.handle_torch_function, "__code__", None)
        self._made: Dict[Tuple[int, int], Tuple[types.CodeType, types.FunctionType]] = {}

    def of_caller(self, frame: types.FrameType) -> Optional[Call]:
        """What to call a function by; `frame` is that of a mode, below the call that it sees.

        A function written in Python has called torch's handler of modes: its frame is not the caller.
        """
        if sys.gettrace() is not None:
            return None  # a debugger would stop at a breakpoint on the script's line once more
        caller = frame.f_back
        if caller is not None and caller.f_code is self._handling:
            function = caller.f_back
            caller = None if function is None else function.f_back
        while caller is not None and PASSED_OVER in caller.f_code.co_filename:  # a wrapper of ours
            caller = caller.f_back
        if caller is None:
            return None
        code, line = caller.f_code, caller.f_lineno or caller.f_code.co_firstlineno
        known = self._made.get((id(code), line))  # codes compare slowly, and alike in different files
        if known is not None and known[1].__globals__ is caller.f_globals:
            return known[1]
        made = types.FunctionType(_as(code, line), caller.f_globals)
        self._made[id(code), line] = code, made
        return made

    def clear(self) -> None:
        """Forget all: each keeps a module of the script's alive."""
        self._made.clear()


def _as(code: types.CodeType, line: int) -> types.CodeType:
    """The call, looking like this line of this code."""
    looks: Dict[str, Any] = {"co_filename": code.co_filename, "co_name": code.co_name, "co_firstlineno": line}
    if hasattr(code, "co_qualname"):  # Python 3.11
        looks["co_qualname"] = code.co_qualname
    return _CODE.replace(**looks)
