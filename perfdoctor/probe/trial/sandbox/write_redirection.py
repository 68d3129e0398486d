"""Keeps the script from changing files where the system permits no overlay on them.

Python's functions that take a path are led to an overlay, where what the script writes and removes is kept,
so that it reads back what it wrote. An audit hook, which cannot be taken out again, stops what would change a
file all the same, before it happens. Both are there when the interpreter starts: a script may clear its
output folder before it imports torch. Here no error of ours is swallowed: unprotected, a trial must not run.
"""

from __future__ import annotations

import errno
import functools
import io
import json
import os
import sys
from _thread import get_ident
from types import FunctionType
from typing import Any, Callable, Dict, Iterator, Tuple

from ....wire import names
from ... import patch
from ...on_import import on_import
from ...wrapping import Args, Kwargs
from .overlay import WRITES, WriteOverlay
from .redirect import MODES, Redirect, bound

LOOKS = ("stat", "lstat", "access", "readlink", "statvfs", "pathconf", "getxattr", "listxattr")
CHANGES = ("chmod", "chown", "lchown", "utime", "truncate", "setxattr", "removexattr")
KINDS: Dict[str, Callable[..., Any]] = {  # functions of `os`; others of Redirect carry their names
    **dict.fromkeys(LOOKS, Redirect.look),
    **dict.fromkeys(CHANGES, Redirect.change),
    **dict.fromkeys(("mkfifo", "mknod"), Redirect.make),
    **dict.fromkeys(("unlink", "remove"), Redirect.unlink),
    **dict.fromkeys(("rename", "replace"), Redirect.rename),
}
NAMED = ("open", "listdir", "scandir", "mkdir", "rmdir", "link", "symlink", "chdir", "getcwd", "getcwdb")
ORIGINALS_OF = ("posix", "_io")  # what Python imports modules with, and we do our work with
# Functions that open files in compiled code: module, name, where the path stands, its keyword, flags.
COMPILED = (
    ("torch", "save", 1, "f", MODES["w"]),
    ("torch", "load", 0, "f", MODES["r"]),
    ("torch.jit", "save", 1, "f", MODES["w"]),
    ("torch.jit", "load", 0, "f", MODES["r"]),
    ("torch.jit", "RecursiveScriptModule.save", 1, "f", MODES["w"]),
    ("torch.profiler.profiler", "_KinetoProfile.export_chrome_trace", 1, "path", MODES["w"]),
    ("safetensors", "safe_open", 0, "filename", MODES["r"]),
    ("safetensors.torch", "save_file", 1, "filename", MODES["w"]),
    ("safetensors.torch", "load_file", 0, "filename", MODES["r"]),
    ("safetensors.numpy", "save_file", 1, "filename", MODES["w"]),
    ("safetensors.numpy", "load_file", 0, "filename", MODES["r"]),
    ("sqlite3", "connect", 0, "database", MODES["a"]),
    ("sqlite3.dbapi2", "connect", 0, "database", MODES["a"]),
)
NO_FILES = (":memory:", "file:")  # what sqlite3 takes beside paths
# Audit events, by where the paths that they change stand in their arguments.
EVENTS: Dict[str, Tuple[int, ...]] = {
    **dict.fromkeys(("os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.chown"), (0,)),
    **dict.fromkeys(("os.utime", "os.setxattr", "os.removexattr", "os.chflags"), (0,)),
    **dict.fromkeys(("os.link", "os.symlink"), (1,)),
    "os.rename": (0, 1),
}
# Audit events of other programs' starts, by where their words stand; and programs that change what is there.
STARTS = {"subprocess.Popen": 1, "os.system": 0, "os.posix_spawn": 1, "os.exec": 1}
DESTRUCTIVE = frozenset(b"rm rmdir unlink mv truncate shred dd rsync".split())
BETWEEN_WORDS = bytes.maketrans(b";|&\n()`'\"", b" " * 9)


class ProtectedFileError(PermissionError):
    """perfdoctor stopped a trial from changing a file of the user's."""

    __module__ = "perfdoctor"  # the name under which the user knows us


def begin(run_dir: str) -> None:
    """Redirect what this process does to files, from now on. Raises what is wrong with the run directory."""
    run_dir = os.path.realpath(run_dir)  # while nothing is replaced
    with open(os.path.join(run_dir, names.CONFIG), encoding="utf-8") as file:
        options = json.load(file)["protect"]
    redirected = Redirect(WriteOverlay(os.path.join(run_dir, names.WRITE_OVERLAY), tuple(options["real"])))
    _replace(redirected)
    for module, name, position, keyword, how in COMPILED:
        on_import(module, _opening(redirected, name, position, keyword, how))
    sys.addaudithook(_guard(redirected, options["fenced"]))


def _replace(redirected: Redirect) -> None:
    """Put our functions in the place of Python's."""
    methods = {**KINDS, **{name: getattr(Redirect, name) for name in NAMED}}
    swaps = {io.open: bound(redirected, io.open, Redirect.stream)}
    for name, method in methods.items():
        original = getattr(os, name)
        swaps[original] = bound(redirected, original, method)
        if original in os.supports_follow_symlinks:
            os.supports_follow_symlinks.add(swaps[original])
    by_id = {id(original): ours for original, ours in swaps.items()}
    for name, module in list(sys.modules.items()):
        if name not in ORIGINALS_OF and not name.startswith(("_perfdoctor", "perfdoctor")):
            _swap(module, by_id)
    if "shutil" in sys.modules:
        sys.modules["shutil"]._use_fd_functions = False  # type: ignore[attr-defined]  # ours take paths


def _swap(holder: Any, by_id: Dict[int, Any]) -> None:
    """Replace functions wherever a module, or a class of it, has kept one, be it as a default."""
    for name, value in list(vars(holder).items()):
        if id(value) in by_id:
            setattr(holder, name, by_id[id(value)])
        elif isinstance(value, staticmethod) and id(value.__func__) in by_id:
            setattr(holder, name, staticmethod(by_id[id(value.__func__)]))
        elif isinstance(value, FunctionType) and value.__defaults__:
            value.__defaults__ = tuple(by_id.get(id(default), default) for default in value.__defaults__)
        elif isinstance(value, type) and value.__module__ == getattr(holder, "__name__", None):
            _swap(value, by_id)


def _opening(redirected: Redirect, name: str, position: int, keyword: str, how: int) -> Callable[[Any], None]:
    """What has a module's function open the overlay's file."""

    def redirect_path(args: Args, kwargs: Kwargs) -> Tuple[Args, Kwargs]:
        given = redirected.given(args[position] if len(args) > position else kwargs.get(keyword))
        if given is None or given.startswith(NO_FILES):
            return args, kwargs
        at = redirected.opened(given, how)
        if len(args) > position:
            return (*args[:position], at, *args[position + 1 :]), kwargs
        return args, {**kwargs, keyword: at}

    def replace(module: Any) -> None:
        owner = module
        *owners, last = name.split(".")
        for part in owners:
            owner = getattr(owner, part)
        original = getattr(owner, last)

        @functools.wraps(original)
        def opening(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = redirect_path(args, kwargs)
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                patch.cut(error)
                raise

        setattr(owner, last, opening)

    return replace


def _guard(redirected: Redirect, landlocked: bool) -> Callable[[str, Tuple[Any, ...]], None]:
    """The audit hook: lets pass what lies in the execution's own folders."""

    def stop(what: str, path: Any) -> None:
        raise ProtectedFileError(errno.EACCES, f"perfdoctor keeps trials from changing files: {what}", path)

    def check(what: str, path: Any) -> None:
        given = redirected.given(path)
        if given is not None and not redirected.is_ours(given):
            stop(what, path)

    def guard(event: str, args: Tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            if flags & WRITES and (get_ident(), path) not in redirected.letting:
                check("open", path)
        elif event in EVENTS:
            for place in EVENTS[event]:
                check(event, args[place])
        elif event in STARTS and not landlocked:
            for word in _words(args[STARTS[event]]):
                if word.rpartition(b"/")[2] in DESTRUCTIVE:
                    stop(event, word.decode(errors="replace"))

    return guard


def _words(said: Any) -> Iterator[bytes]:
    """The words of a command line, or of a shell's."""
    for part in said if isinstance(said, (list, tuple)) else [said]:
        if isinstance(part, (str, bytes)):
            yield from os.fsencode(part).translate(BETWEEN_WORDS).split()
