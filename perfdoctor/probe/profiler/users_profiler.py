"""The script's own profilers come first: who has one prepared, and our own makes way in time.

Opening a profiler while another is prepared, or preparing one while another is open in a second thread,
ends the process with a segmentation fault. torch tells neither: its flag is off during warm-up, and belongs
to one thread. So the calls that prepare and end a profiler are watched.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from typing import Any, Callable, Dict, Optional, Set

from .. import patch
from ..on_import import on_import
from ..user_frames import user_line
from ..wrapping import Args, Kwargs, nothing


class UsersProfilers:
    """The profilers of the script that are prepared or open in this process."""

    def __init__(self) -> None:
        self.were_there = False  # torch latches at its first profiler whether all of them write to stderr
        self.prepared: Set[int] = set()  # by identity; one that is never ended keeps us away for good
        self.acting: Optional[int] = None  # the thread in which we prepare or end our own
        self.line: Optional[Dict[str, Any]] = None  # of the script's that prepared the last one
        self.make_way: Callable[[], None] = lambda: None  # ends ours; returns once it is ended
        # torch 2.13 imports a module of its own at the first `record_function`. Inside a profile with Python
        # stacks, that frame's name is read after it was freed: by chance it is no text, and ends the script.
        self.import_early: Callable[[], object] = lambda: None

    def before_prepare(self, args: Args, kwargs: Kwargs) -> None:
        """Note the profiler first, then make way: whoever opens ours looks at the notes after its own."""
        if self.acting == get_ident():
            return
        self.were_there = True
        self.prepared.add(id(args[0]))
        self.line = user_line()
        self.import_early()
        self.make_way()

    def before_end(self, args: Args, kwargs: Kwargs) -> Optional[int]:
        """Know it again once it has ended."""
        return None if self.acting == get_ident() else id(args[0])

    def after_end(self, identity: int, args: Args, result: Any) -> None:
        """It has ended, and post-processed what it saw."""
        self.prepared.discard(identity)

    def busy(self, torch: Any) -> bool:
        """Whether a profiler that is not ours is prepared or open, in any thread."""
        return bool(
            self.prepared
            or torch.autograd.profiler._is_profiler_enabled
            or torch._C._autograd._profiler_enabled()
        )


def install(users: UsersProfilers) -> None:
    """Watch every way to a profiler that torch offers."""

    def watch(owner: Any, begin: str) -> None:
        patch.wrap(owner, begin, users.before_prepare, nothing, "profiler")
        patch.wrap(owner, "__exit__", users.before_end, users.after_end, "profiler")

    def watch_module(module: Any) -> None:
        watch(module.profile, "_prepare_trace")
        users.import_early = getattr(module, "_maybe_cupti_monitor", users.import_early)
        for name in ("emit_itt", "emit_nvtx"):
            watch(getattr(module, name), "__enter__")

    def watch_legacy(module: Any) -> None:
        watch(module.profile, "__enter__")

    on_import("torch.autograd.profiler", patch.guarded("profiler", watch_module))
    on_import("torch.autograd.profiler_legacy", patch.guarded("profiler", watch_legacy))


def stacks_unsafe(torch: Any) -> Optional[str]:
    """Why torch must not record Python stacks here, or None where that is known to be safe."""
    version = tuple(int(part) for part in str(torch.__version__).split(".")[:2])
    if sys.version_info >= (3, 13) and (
        version < (2, 7) or sys.version_info >= (3, 14) or not sys._is_gil_enabled()
    ):  # it crashed on 3.13 up to torch 2.6; nobody has tried 3.14
        return "recording Python stacks is not known to be safe with this Python and torch"
    threading = sys.modules.get("threading")
    if sys.getprofile() is not None or getattr(threading, "_profile_hook", None) is not None:
        return "the script has a profile function of its own, which recording stacks would replace"
    if compiles():
        return "recording Python stacks beside torch.compile can take minutes"
    return None


def compiles() -> bool:
    """Whether torch.compile has compiled something in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and bool(dynamo.counters.get("frames"))
