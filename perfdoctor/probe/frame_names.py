"""What the names in a frame of the user's hold, read without keeping any of it alive."""

from __future__ import annotations

import sys
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import Any, Dict

OURS = 3  # references to a frame's snapshot: the frame's, our name for it, the argument of getrefcount


def names_of(frame: FrameType) -> Dict[str, Any]:
    """Locals of a frame, and the globals that its code names.

    Before Python 3.13 a function's `f_locals` is a snapshot that stays with the frame, and what it holds
    lives as long: it is emptied again, unless the script itself holds it through a call of `locals()`.
    """
    code = frame.f_code
    found = {name: frame.f_globals[name] for name in code.co_names if name in frame.f_globals}
    snapshot = frame.f_locals
    found.update(snapshot)
    if sys.version_info < (3, 13) and code.co_flags & CO_OPTIMIZED and sys.getrefcount(snapshot) <= OURS:
        snapshot.clear()
    return found
