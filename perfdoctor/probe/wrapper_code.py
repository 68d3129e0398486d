"""The code of a wrapper, as stack samples and `warnings` know it."""

from __future__ import annotations

import os
import sys
import types
from typing import Any, Dict

PASSED_OVER = "importlib_bootstrap"  # frames of a file with both words in its path are no levels of a warning

# Of each file the name that its wrappers have. PyTorch's profiler of Python stacks keeps addresses of names,
# and reads them at its end, when a wrapper may be gone.
_files: Dict[str, str] = {}


def wrapper_code(code: types.CodeType, name: str) -> types.CodeType:
    """The code under a name, by which stack samples learn the phase.

    A warning is shown at the line so many levels up from where it is made, and those stay as they are without
    the wrapper.
    """
    file = _files.get(code.co_filename)
    if file is None:
        folder, base = os.path.split(code.co_filename)
        file = _files[code.co_filename] = os.path.join(folder, PASSED_OVER, base)
    looks: Dict[str, Any] = {"co_name": name, "co_filename": file}
    if sys.version_info >= (3, 11):
        looks["co_qualname"] = name
    return code.replace(**looks)
