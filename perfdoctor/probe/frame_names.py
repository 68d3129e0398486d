"""What the names in a frame of the user's hold, read without keeping any of it alive."""

from __future__ import annotations

import dis
import sys
from functools import lru_cache
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType
from typing import Any, Dict

OURS = 3  # references to a frame's snapshot: the frame's, our name for it, the argument of getrefcount
# Code that names one of these may hold its snapshot, or keep names of its own there.
SHOWS_LOCALS = frozenset(("locals", "vars", "dir", "exec", "eval", "f_locals"))
OF_ARGUMENT = frozenset(("vars", "dir"))  # of these, those that are given a thing show its names
CODES_MAX = 256  # whose answer is remembered


def names_of(frame: FrameType) -> Dict[str, Any]:
    """Locals of a frame, and the globals that its code names.

    Before Python 3.13 a function's `f_locals` is a snapshot that stays with the frame, and what it holds
    lives as long: it is emptied again. Where the script may hold it as well, by a call of `locals()`, reading
    it would change what the script holds: of such a function there are only globals.
    """
    code = frame.f_code
    found = {name: frame.f_globals[name] for name in code.co_names if name in frame.f_globals}
    if sys.version_info >= (3, 13) or not code.co_flags & CO_OPTIMIZED:
        found.update(frame.f_locals)
    elif SHOWS_LOCALS.isdisjoint(code.co_names) or not _shows_locals(code):
        snapshot = frame.f_locals
        found.update(snapshot)
        if sys.getrefcount(snapshot) <= OURS:
            for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
                snapshot.pop(name, None)
    return found


@lru_cache(maxsize=CODES_MAX)
def _shows_locals(code: CodeType) -> bool:
    """Whether code asks for locals by one of these names: `model.eval()` and `vars(thing)` do not."""
    instructions = list(dis.get_instructions(code))
    return any(
        one.argval == "f_locals"
        or (
            one.opname.startswith("LOAD_GLOBAL")
            and one.argval in SHOWS_LOCALS
            and (one.argval not in OF_ARGUMENT or "CALL" in following.opname)  # it is given nothing
        )
        for one, following in zip(instructions, instructions[1:])
    )
