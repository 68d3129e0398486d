"""What the names in a frame of the user's hold, read without keeping any of it alive."""

from __future__ import annotations

import dis
import sys
from functools import lru_cache
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_OPTIMIZED
from types import CodeType, FrameType
from typing import Any, Dict, List, Tuple

OURS = 3  # references to a frame's snapshot: the frame's, our name for it, the argument of getrefcount
# Code that names one of these may hold its snapshot, or keep names of its own there.
SHOWS_LOCALS = frozenset(("locals", "vars", "dir", "exec", "eval", "f_locals"))
OF_ARGUMENT = frozenset(("vars", "dir"))  # of these, those that are given a thing show its names
CODES_MAX = 256  # whose answer is remembered
SUSPENDS = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR  # flags of code whose frame may outlive a call
SNAPSHOTS = sys.version_info < (3, 13)  # a function's `f_locals` is a dictionary that stays with its frame
FILLED = sys.version_info < (3, 11)  # Python fills it for each call of a profile function, and reads it after


def names_of(frame: FrameType) -> Dict[str, Any]:
    """Locals of a frame, and the globals that its code names.

    Before Python 3.13 a function's `f_locals` is a snapshot that stays with the frame, and what it holds
    lives as long: it is emptied again. Where the script may hold it as well, by a call of `locals()`, reading
    it would change what the script holds: of such a function there are only globals.
    """
    code = frame.f_code
    found = {name: frame.f_globals[name] for name in code.co_names if name in frame.f_globals}
    if not SNAPSHOTS or not code.co_flags & CO_OPTIMIZED:
        found.update(frame.f_locals)
    elif not shows_locals(code):
        snapshot = frame.f_locals
        found.update(snapshot)
        if sys.getrefcount(snapshot) <= OURS:
            _empty(snapshot, code)
    return found


class Snapshots:
    """The locals of frames of which a profile function is told.

    Emptied later, but not while it runs: when it returns, what is missing in the snapshot of the frame that
    it was called for is taken from the frame's names as well.
    """

    def __init__(self) -> None:
        self._full: List[Tuple[Dict[str, Any], CodeType]] = []

    def of(self, frame: FrameType) -> Dict[str, Any]:
        """The locals; none of a function that may hold its snapshot."""
        code = frame.f_code
        if not SNAPSHOTS or not code.co_flags & CO_OPTIMIZED:
            return frame.f_locals
        if shows_locals(code):
            return {}
        snapshot = frame.f_locals
        # Those of other frames go with them, unless Python fills them again and again.
        if not FILLED or code.co_flags & SUSPENDS:
            self._full.append((snapshot, code))
        return snapshot

    def turn(self) -> None:
        """The profile function is called once more, for whichever frame."""
        if self._full and not FILLED:
            self.empty()

    def empty(self) -> None:
        """The profile function is not running: let go of all that was read."""
        while self._full:
            snapshot, code = self._full.pop()
            if sys.getrefcount(snapshot) <= OURS:
                _empty(snapshot, code)


def _empty(snapshot: Dict[str, Any], code: CodeType) -> None:
    for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
        snapshot.pop(name, None)


def shows_locals(code: CodeType) -> bool:
    """Whether code may hold the snapshot of its frame's locals: to read them would change what it holds."""
    return not SHOWS_LOCALS.isdisjoint(code.co_names) and _shows_locals(code)


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
