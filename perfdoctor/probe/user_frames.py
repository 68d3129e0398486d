"""Which line of the user's own code are we called from?"""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from types import CodeType, FrameType
from typing import Any, Dict, Iterable, List, Optional, Tuple

from .stand_ins import stands_in

_OURS = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep  # probe and tweaks
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_PACKAGES = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
# what torch.compile writes, and torch_geometric
_GENERATED = re.compile(r"torchinductor_|(^|[/\\])c[a-z2-7]{51}\.py$|_(?:propagate|edge_updater)_\w{8}\.py$")
FRAMES_MAX = 8  # of the user's, from the inside: a training loop is not called from further out
LIBRARIES = ("transformers", "lightning", "pytorch_lightning", "accelerate")  # whose options build loaders
CONTAINERS = (  # that hand on what they are given
    "torch.nn.modules.module",
    "torch.nn.modules.container",
    "torch.nn.parallel.distributed",
    "torch.utils._contextlib",
    "torch.amp.autocast_mode",
)
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
    if path.startswith(_STDLIB) or any(part in path for part in _PACKAGES):  # most files: those of modules
        return False
    ours = os.path.realpath(path).startswith(_OURS)  # a run links to what is ours
    return not ours and _GENERATED.search(path) is None


def user_frame() -> Optional[FrameType]:
    """The innermost frame on the stack that runs the user's code."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and not _is_of_user(frame.f_code):
        frame = frame.f_back
    return frame


def _is_of_user(code: CodeType) -> bool:
    """Whether a frame of this code is the user's, and does not only look like it."""
    return is_users(code.co_filename) and not stands_in(code)


def user_line() -> Optional[Dict[str, Any]]:
    """The innermost line of the user's code: {file, line, function}."""
    frame = user_frame()
    return None if frame is None else line_of(frame)


def user_frames() -> List[FrameType]:
    """The frames on the stack that run the user's code, innermost first, at most FRAMES_MAX."""
    found: List[FrameType] = []
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and len(found) < FRAMES_MAX:
        if _is_of_user(frame.f_code):
            found.append(frame)
        frame = frame.f_back
    return found


def user_lines() -> List[Dict[str, Any]]:
    """Their lines, innermost first."""
    return [line_of(frame) for frame in user_frames()]


def making_line(made: object) -> Optional[Dict[str, Any]]:
    """The user's line that calls the class of an object whose constructors run; None where a library does."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and (_is_ours(frame.f_code) or _constructs(frame, made)):
        frame = frame.f_back
    return None if frame is None or not _is_of_user(frame.f_code) else line_of(frame)


def _is_ours(code: CodeType) -> bool:
    return stands_in(code) or _lies_beside(code.co_filename)


@cache
def _lies_beside(filename: str) -> bool:
    return os.path.realpath(filename).startswith(_OURS)


def _constructs(frame: FrameType, made: object) -> bool:
    code = frame.f_code
    is_constructor = code.co_name == "__init__" and code.co_argcount > 0
    return is_constructor and frame.f_locals.get(code.co_varnames[0]) is made


def line_of(frame: FrameType) -> Dict[str, Any]:
    """Where a frame is: {file, line, function}."""
    return _line(frame.f_code, frame.f_lineno)


def users_line(stack: Iterable[Tuple[CodeType, int]]) -> Optional[Dict[str, Any]]:
    """The innermost line of the user's code on a stack that is kept without its frames, innermost first."""
    return next((_line(code, line) for code, line in stack if _is_of_user(code)), None)


def _line(code: CodeType, line: int) -> Dict[str, Any]:
    return {"file": os.path.abspath(code.co_filename), "line": line, "function": code.co_name}


def modules_between() -> List[str]:
    """The names of the modules that were called to get here from the user's code, innermost first."""
    names: List[str] = []
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and not _is_of_user(frame.f_code):
        if not stands_in(frame.f_code):
            names.append(str(frame.f_globals.get("__name__", "")))
        frame = frame.f_back
    return names


def is_called_by_user() -> bool:
    """Whether the user's code makes the call that we are in, itself or through containers of torch's."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and (
        _is_ours(frame.f_code) or str(frame.f_globals.get("__name__", "")) in CONTAINERS
    ):
        frame = frame.f_back
    return frame is not None and _is_of_user(frame.f_code)


def library_between() -> Optional[str]:
    """The library that makes or iterates a loader for the user, if one does."""
    names = {name.split(".")[0] for name in modules_between()}
    return next((name for name in LIBRARIES if name in names), None)
