"""What the user's functions are called with and give, seen by a profile function for a short while.

Python says when functions are called and when they end. They are counted and not timed. Where somebody else
has set a profile function, nothing is looked at. Values are compared by checksums; none is kept.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections import Counter
from itertools import islice
from types import CodeType, FrameType, FunctionType
from typing import Any, Callable, Dict, List, Optional, Tuple

from ...wire.events.item_work import FAR
from .. import patch
from ..checksum import UNREADABLE, Checksum, checksum
from ..containers import is_a
from ..frame_names import FILLED, SUSPENDS, Snapshots, shows_locals
from ..user_frames import is_users

Place = Tuple[CodeType, int]

CALLS_MAX = 150_000  # events that the profile function sees, in a process: at a microsecond each
CHECKSUMS_MAX = 6_000  # in a process: at about ten microseconds each
COMPARED_MAX = 200  # calls of one line
PLACES_MAX = 200  # lines and functions told apart
NAMES_MAX = 24  # locals of a function
MANY = 16  # calls from one line in C that are worth a word
EFFECTS = (type(None), int)  # what calls give, bool included, that are made for something else they do
OURS = __name__.partition(".")[0] + "."  # modules that wrap what the script calls
# The wrappers around functions that read files: what a line calls is the function in them. Others are around
# what trains, which has looks of its own.
READS = "repeated_reads"
ENDS_IN_C = frozenset(("c_return", "c_exception"))
ALL_IN_C = ENDS_IN_C | {"c_call"}
VARIES = object()


class Function:
    """The ends of one of the user's functions, and what its locals held there."""

    def __init__(self, code: CodeType) -> None:
        self.ends = 0
        arguments = code.co_varnames[: code.co_argcount][:1]
        self.skipped = set(arguments) & {"self", "cls"}
        self.values: Dict[str, Any] = {}  # name -> the checksum that it had each time, or VARIES
        self.plain: List[str] = []  # names that held a mere number

    def end(self, local: Dict[str, Any], lasting: Dict[int, Any]) -> None:
        """Compare the locals with those of the ends before."""
        now = {
            name: UNREADABLE if value is None else checksum(value, lasting)  # None: cleared, as a rule
            for name, value in islice(local.items(), NAMES_MAX)
            if name not in self.skipped
        }
        values = self.values
        if not self.ends:
            values.update(now)
            self.plain = [name for name in now if is_a(local[name], EFFECTS)]
        for name in values.keys() | now.keys():
            if now.get(name, VARIES) != values.get(name, VARIES):
                values[name] = VARIES
        self.ends += 1

    def told(self, code: CodeType) -> Dict[str, Any]:
        """As it is written down; a local that could not be read is in neither list."""
        readable = {name: value for name, value in self.values.items() if value is not UNREADABLE}
        return {
            "at": _line(code, code.co_firstlineno),
            "ends": self.ends,
            "same": {name: value for name, value in readable.items() if value is not VARIES},
            "plain": self.plain,
            "varied": [name for name, value in readable.items() if value is VARIES],
        }


class Calls:
    """The calls of one function from one line of the user's."""

    def __init__(self, callee: str, module: str, code: CodeType) -> None:
        self.callee, self.module = callee, module
        self.file, self.line, self.function = code.co_filename, code.co_firstlineno, code.co_name
        self.calls = self.compared = self.repeated = self.differed = 0
        self.results: Dict[int, int] = {}  # by the checksum of the arguments
        self.last: Dict[int, int] = {}  # when a call had them last, counted in compared calls
        self.after: List[int] = []  # how many calls later they came again

    def end(self, arguments: Checksum, result: Checksum) -> None:
        """Compare a call with those before."""
        if arguments is UNREADABLE or result is UNREADABLE:
            return
        self.compared += 1
        if arguments not in self.results:
            self.results[arguments] = result
        elif self.results[arguments] == result:
            self.repeated += 1
            self.after.append(self.compared - self.last[arguments])
        else:
            self.differed += 1
        self.last[arguments] = self.compared

    def told(self, place: Place) -> Dict[str, Any]:
        """As it is written down."""
        return {
            "at": _line(*place),
            "callee": self.callee,
            "module": self.module,
            "file": os.path.abspath(self.file),
            "line": self.line,
            "function": self.function,
            "calls": self.calls,
            "compared": self.compared,
            "repeated": self.repeated,
            "far": sum(later >= FAR * self.compared for later in self.after),
            "differed": self.differed,
            "arguments": len(self.results),
        }


class UserCalls:
    """The profile function of one process, and what it saw."""

    def __init__(self, name: str, in_c: bool = True) -> None:
        self.over = False  # all that may be spent is
        self.most = CALLS_MAX
        # Not looked at; calls in C are, where they are to be counted by name.
        self.skipped = frozenset() if FILLED else ENDS_IN_C if in_c else ALL_IN_C
        self.events = self.checksums = 0
        self.users: Dict[CodeType, bool] = {}
        self.functions: Dict[CodeType, Function] = {}
        self.calls: Dict[Tuple[CodeType, int, CodeType], Calls] = {}
        self.small: Dict[Tuple[CodeType, int, str], int] = {}
        self.under_way: List[Tuple[FrameType, Optional[Calls], Checksum]] = []
        self.outermost: Counter[CodeType] = Counter()  # ended since `begin`, called by a library
        self.lasting: Dict[int, Any] = {}
        self.ends: Optional[Callable[[], bool]] = None
        self.snapshots = Snapshots()
        self.profile = patch.profile_function(name, self._profile)

    def begin(self, lasting: Dict[int, Any], ends: Optional[Callable[[], bool]] = None) -> bool:
        """Look from now on, until `end` is called, or `ends` says so when a function is called.

        `lasting`: by id, what is the same if its id is. False: somebody else looks.
        """
        if sys.getprofile() is not None:
            return False
        self.lasting = lasting
        self.ends = ends
        self.outermost.clear()
        sys.setprofile(self.profile)
        return True

    def end(self) -> None:
        """Look away."""
        self._end()
        self.snapshots.empty()

    def _end(self) -> None:
        if sys.getprofile() is self.profile:
            sys.setprofile(None)
        self.under_way.clear()  # frames that are kept would keep their values
        self.lasting = {}

    def clear(self) -> None:
        """Forget what was seen."""
        self.functions, self.calls, self.small = {}, {}, {}

    def told(self) -> Tuple[List[Dict[str, Any]], List[Dict[str, Any]], List[Dict[str, Any]]]:
        """Functions, calls of functions, and calls in C, as they are written down."""
        return (
            [function.told(code) for code, function in self.functions.items() if function.ends],
            [calls.told((code, line)) for (code, line, _), calls in self.calls.items()],
            [
                {"at": _line(code, line), "callee": callee, "calls": count}
                for (code, line, callee), count in self.small.items()
                if count >= MANY
            ],
        )

    # ------------------------------------------------------------ what is seen

    def _profile(self, frame: FrameType, event: str, arg: Any) -> None:
        self.events += 1
        if event in self.skipped and self.events <= self.most:
            return
        self.snapshots.turn()
        if self.events > self.most or self.checksums > CHECKSUMS_MAX or _is_spoilt(frame):
            self.over = True
            self._end()
        elif event == "call" and self.ends is not None and self.ends():
            self._end()
        elif event == "c_call":
            if self._is_users(frame.f_code):
                self._called_in_c(frame, arg)
        elif event == "call":
            self._called(frame)
        elif event == "return" and self.under_way and self.under_way[-1][0] is frame:
            self._returned(frame, arg)

    def _is_users(self, code: CodeType) -> bool:
        known = self.users.get(code)
        if known is None:
            known = self.users[code] = is_users(code.co_filename)
        return known

    def _called_in_c(self, frame: FrameType, callee: Any) -> None:
        owner = getattr(callee, "__self__", None)
        module = callee.__module__ or type(owner).__module__
        key = (frame.f_code, frame.f_lineno, f"{module}.{callee.__qualname__}")
        if key in self.small or len(self.small) < PLACES_MAX:
            self.small[key] = self.small.get(key, 0) + 1

    def _called(self, frame: FrameType) -> None:
        code, names, caller = frame.f_code, frame.f_globals, frame.f_back
        own = self._is_users(code)
        from_user = caller is not None and self._is_users(caller.f_code)
        if not (own or from_user):
            return
        if str(names.get("__name__")).startswith(OURS):
            reader = self.snapshots.of(frame).get("original") if code.co_name == READS else None
            if type(reader) is not FunctionType:
                return
            code, names = reader.__code__, reader.__globals__
        calls, arguments = None, UNREADABLE
        if caller is not None and from_user and not code.co_flags & SUSPENDS and code.co_name[0] != "<":
            calls = self._calls((caller.f_code, caller.f_lineno, code), frame, names)
            if calls is not None:
                calls.calls += 1
                if calls.calls <= COMPARED_MAX:
                    arguments = self._arguments(frame)
        if own or arguments is not UNREADABLE:
            self.under_way.append((frame, calls, arguments))

    def _calls(
        self, key: Tuple[CodeType, int, CodeType], frame: FrameType, names: Dict[str, Any]
    ) -> Optional[Calls]:
        """Those of a line to a function, which `names` are the globals of."""
        calls = self.calls.get(key)
        if calls is None and len(self.calls) < PLACES_MAX:
            callee = self._callee(frame, key[-1])
            calls = self.calls[key] = Calls(callee, str(names.get("__name__", "")), key[-1])
        return calls

    def _callee(self, frame: FrameType, code: CodeType) -> str:
        """What is called, as it is written: a class by its name."""
        made = self.snapshots.of(frame).get(code.co_varnames[0]) if _is_init(code) else None
        return code.co_name if made is None else type(made).__qualname__

    def _arguments(self, frame: FrameType) -> Checksum:
        """The checksum of what a function is called with; of `__init__`, without what it makes."""
        self.checksums += 1
        code, local = frame.f_code, self.snapshots.of(frame)
        if shows_locals(code):
            return UNREADABLE
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        names = code.co_varnames[_is_init(code) : count]
        return checksum(tuple(local[name] for name in names if name in local), self.lasting)

    def _returned(self, frame: FrameType, result: Any) -> None:
        _, calls, arguments = self.under_way.pop()
        code = frame.f_code
        if calls is not None and arguments is not UNREADABLE:
            if _is_init(code):
                result = self.snapshots.of(frame).get(code.co_varnames[0])
            if not is_a(result, EFFECTS):
                self.checksums += 1
                calls.end(arguments, checksum(result, self.lasting))
        if not self.under_way:
            self.outermost[code] += 1
        if self._is_users(code) and code.co_name[0] != "<":
            function = self.functions.get(code)
            if function is None and len(self.functions) < PLACES_MAX:
                function = self.functions[code] = Function(code)
            if function is not None and function.ends < COMPARED_MAX:
                self.checksums += len(code.co_varnames)
                function.end(self.snapshots.of(frame), self.lasting)


def _is_init(code: CodeType) -> bool:
    return code.co_name == "__init__" and code.co_argcount > 0


def _is_spoilt(frame: FrameType) -> bool:
    """Whether a mere call of a profile function changes what this frame may hold of its locals."""
    return FILLED and shows_locals(frame.f_code)


def _line(code: CodeType, line: int) -> Dict[str, Any]:
    return {"file": os.path.abspath(code.co_filename), "line": line, "function": code.co_name}
