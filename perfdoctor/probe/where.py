"""Which line of the user's own code are we called from?"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any, Dict, Optional

_PROBE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_PACKAGES = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
_known: Dict[str, bool] = {}  # file name as compiled -> is it the user's


def is_users(filename: str) -> bool:
    """Whether a code object of this file name belongs to the user, not to an installed package."""
    known = _known.get(filename)
    if known is None:
        known = _known[filename] = _judge(filename)
    return known


def _judge(filename: str) -> bool:
    if filename.startswith("<"):
        return filename in ("<stdin>", "<string>")
    path = os.path.abspath(filename)
    if path.startswith((_PROBE, _STDLIB)):
        return False
    return not any(part in path for part in _PACKAGES)


def user_frame() -> Optional[FrameType]:
    """The innermost frame on the stack that runs the user's code."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def user_line() -> Optional[Dict[str, Any]]:
    """The innermost line of the user's code: {file, line, function}."""
    frame = user_frame()
    if frame is None:
        return None
    code = frame.f_code
    return {"file": os.path.abspath(code.co_filename), "line": frame.f_lineno, "function": code.co_name}
