"""What torch.compile compiles, how long that takes, and where its graphs break: from torch's own account.

Nothing is hooked in where code is compiled or runs: once a second the lists that torch keeps are looked at.
Values that a guard compares are the script's, and stay there.
"""

from __future__ import annotations

import os
import re
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from ...wire.events.compiling import CompileCallEvent, CompiledEvent, GraphBreakEvent
from ..observer import Watch, observer
from ..recorder import clock
from ..user_frames import is_users, user_line
from ..wrapping import nothing

MOST_COMPILATIONS = 2_000  # written in a run: torch itself stops at a few hundred of one function
MOST_PLACES = 200  # at which graphs break
LONGEST = 160  # characters of a reason
CODES = 10_000  # pieces of code whose function is remembered
LIMIT = re.compile(r"(recompile|cache)[ _]?(size[ _])?limit", re.IGNORECASE)
RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")  # what torch calls the rest of a function
NUMBERS = re.compile(r"(\d+)/(\d+)")  # torch's identity of a compilation: of the code, and how often before
NUMBER = re.compile(r"^\d+/\d+: ")
SHAPE = re.compile(r"\bL\['(\w+)'\]")
COMPARED = re.compile(r"\s(?:==|!=|is not|is|not in|in|<=|>=|<|>)\s")
IN_CODE = re.compile(r"# .*?# (\S+?):(\d+) in (\S+)")
IN_STACK = re.compile(r'^\s*File "(.+)", line (\d+), in (\S+)', re.MULTILINE)
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|\[.*\]|\{.*\}")

OLDER_BACKWARD = "BwdCompilationMetrics"  # what torch 2.4 keeps of a backward, apart from those of forwards

Place = Optional[Dict[str, Any]]


class Compiling:
    """What was written of one process's compilations."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.last: Any = None  # the newest compilation that was written
        self.written = 0
        self.functions: Dict[str, Tuple[Optional[str], Place]] = {}  # by torch's number of the code
        self.breaks = 0  # of torch's list, that were counted
        self.counts: Dict[Tuple[str, int, str], List[Any]] = {}  # by place and reason: count, line, written
        self.callers: Dict[Tuple[str, int], None] = {}

    def called(self, args: Any, kwargs: Any) -> None:
        """The script calls torch.compile."""
        at = user_line()
        if at is not None and len(self.callers) < MOST_PLACES:
            key = at["file"], at["line"]
            if key not in self.callers:
                self.callers[key] = None
                self.watch.write(CompileCallEvent(at=at))

    def look(self) -> None:
        """Write what torch's lists have that was not written yet."""
        utils = sys.modules.get("torch._dynamo.utils")
        if utils is None:
            return
        newest = getattr(utils, "_compilation_metrics", None)
        if newest and newest[-1] is not self.last:
            self._compilations(list(newest))
        reasons = getattr(utils, "graph_break_reasons", None)
        if reasons is not None and len(reasons) != self.breaks:
            self._breaks(list(reasons))

    def _compilations(self, entries: List[Any]) -> None:
        """Those behind the last one; all, where torch has forgotten that by now."""
        known = next((n for n in range(len(entries), 0, -1) if entries[n - 1] is self.last), 0)
        self.last = entries[-1]
        for entry in entries[known:]:
            if self.written < MOST_COMPILATIONS:
                self.written += 1
                self.watch.write(self._event(entry))

    def _event(self, entry: Any) -> CompiledEvent:
        numbers = NUMBERS.match(str(getattr(entry, "compile_id", None)))
        code = numbers.group(1) if numbers is not None else None
        name, function = _function(entry)
        if code is not None:
            if name is None:  # torch does not say it again of a backward, or of what it refuses
                name, function = self.functions.get(code, (None, None))
            elif len(self.functions) < CODES:
                self.functions[code] = name, function
        begin_s = _begin_s(entry)
        reason = getattr(entry, "recompile_reason", None)
        failure = str(getattr(entry, "fail_reason", None) or "").partition("\n")[0]
        return CompiledEvent(
            code=code,
            name=name,
            function=function,
            begin_ns=clock() - int((time.time() - begin_s) * 1e9) if begin_s is not None else clock(),
            seconds=_seconds(entry),
            kept_s=float(getattr(entry, "inductor_compile_time_s", None) or 0.0) if _keeps() else 0.0,
            again=numbers is not None and int(numbers.group(2)) > 0,
            backward=getattr(entry, "is_forward", None) is False or type(entry).__name__ == OLDER_BACKWARD,
            given_up=LIMIT.search(failure) is not None,
            broken=_assumption(reason) if reason else None,
            broken_at=_guard_line(reason, function) if reason else None,
        )

    def _breaks(self, reasons: List[Any]) -> None:
        """Count the new ones by their place. A list that is shorter than it was began anew."""
        new = reasons[self.breaks :] if len(reasons) > self.breaks else reasons
        self.breaks = len(reasons)
        changed = {}
        for reason in new:
            at = _innermost(getattr(reason, "user_stack", None) or [])
            told = _told(str(getattr(reason, "reason", "")))
            key = (at["file"], at["line"], told) if at is not None else ("", 0, told)
            if key in self.counts or len(self.counts) < MOST_PLACES:
                known = self.counts.setdefault(key, [0, at])
                known[0] += 1
                changed[key] = known
        for (_, _, told), (count, at) in changed.items():
            self.watch.write(GraphBreakEvent(count=count, reason=told, at=at))


@observer
def compiling(watch: Watch) -> None:
    """Read torch's account of what it compiled once a second."""
    account = Compiling(watch)
    watch.wrap(watch.torch, "compile", account.called, nothing, "compiling")
    watch.each_second("compiling", account.look)


def _function(entry: Any) -> Tuple[Optional[str], Place]:
    """The name of what was compiled, and where it is defined, if the script does that."""
    file, line, name = (getattr(entry, "co_" + part, None) for part in ("filename", "firstlineno", "name"))
    if not isinstance(file, str) or not isinstance(line, int) or not isinstance(name, str):
        return None, None
    name = RESUMED.sub(r"\1", name)
    place = {"file": os.path.abspath(file), "line": line, "function": name}
    return name, place if is_users(file) else None


def _seconds(entry: Any) -> float:
    """Of the whole compilation, as torch before 2.6 names it as well; of a backward, Inductor's part then."""
    duration_us = getattr(entry, "duration_us", None)
    if duration_us is not None:
        return float(duration_us) / 1e6
    whole_s = getattr(entry, "entire_frame_compile_time_s", None)
    return float(whole_s or getattr(entry, "inductor_compile_time_s", None) or 0.0)


def _keeps() -> bool:
    """Whether what Inductor compiles is kept on disk, as is usual from torch 2.5 on; tracing is done anew."""
    config = sys.modules.get("torch._inductor.config")
    is_disabled = getattr(config, "force_disable_caches", False)
    return bool(getattr(config, "fx_graph_cache", False)) and not is_disabled


def _begin_s(entry: Any) -> Optional[float]:
    """When it began, in seconds since 1970."""
    start_us = getattr(entry, "start_time_us", None)
    if start_us is not None:
        return float(start_us) / 1e6
    start_s = getattr(entry, "start_time", None)
    return float(start_s) if start_s is not None else None


def _assumption(reason: str) -> str:
    """What a guard was about, such as "tensor 'x' size mismatch at index 0", without the values."""
    first = NUMBER.sub("", reason.partition("\n")[0]).partition("  #")[0].partition(" (HINT")[0]
    first = first.partition(". expected ")[0].strip()
    left = SHAPE.sub(r"\1", COMPARED.split(first, maxsplit=1)[0])
    return left[:LONGEST]


def _guard_line(reason: str, function: Place) -> Place:
    """The script's line that a guard is there for: of the stack that torch prints, else of its comment."""
    for file, line, name in reversed(IN_STACK.findall(reason)):
        if is_users(file):
            return {"file": os.path.abspath(file), "line": int(line), "function": RESUMED.sub(r"\1", name)}
    comment = IN_CODE.search(reason.partition("\n")[0])
    if comment is not None and function is not None and function["file"].endswith(comment.group(1)):
        return {
            "file": function["file"],
            "line": int(comment.group(2)),
            "function": RESUMED.sub(r"\1", comment.group(3)),
        }
    return None


def _innermost(stack: Any) -> Place:
    """The innermost line of the user's on a stack that torch kept."""
    for frame in reversed(list(stack)):
        if is_users(frame.filename):
            name = RESUMED.sub(r"\1", frame.name)
            return {"file": os.path.abspath(frame.filename), "line": frame.lineno or 0, "function": name}
    return None


def _told(reason: str) -> str:
    """The first line of a reason, without what it quotes."""
    return QUOTED.sub("", reason.partition("\n")[0]).strip()[:LONGEST]
