"""The code of a wrapper, as stack samples and `warnings` know it."""

from __future__ import annotations

import os
import sys
import types
from functools import cache
from typing import Any, Dict

from .compile_question import hide_from_compiler

PASSED_OVER = "importlib_bootstrap"  # frames of a file with both words in its path are no levels of a warning


# Kept: PyTorch's profiler of Python stacks reads such names by their address, when a wrapper may be gone.
@cache
def _file_of_wrappers(file: str) -> str:
    """The name that all wrappers made in a file have for it."""
    folder, base = os.path.split(file)
    return os.path.join(folder, PASSED_OVER, base)


def wrapper_code(code: types.CodeType, name: str) -> types.CodeType:
    """The code under a name, by which stack samples learn the phase.

    A warning is shown at the line so many levels up from where it is made, and those stay as they are without
    the wrapper.
    """
    looks: Dict[str, Any] = {"co_name": name, "co_filename": _file_of_wrappers(code.co_filename)}
    if sys.version_info >= (3, 11):
        looks["co_qualname"] = name
    return code.replace(**looks)


def named(function: Any, name: str) -> types.FunctionType:
    """The function under that name, hidden from the compiler."""
    code = wrapper_code(function.__code__, name)
    hide_from_compiler(code)
    return types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
