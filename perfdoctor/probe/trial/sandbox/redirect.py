"""What `open` and the functions of `os` that take a path do instead, on an overlay of the user's files."""

from __future__ import annotations

import os
import posix
from _thread import get_ident
from types import MethodType
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from .files import inside
from .overlay import WriteOverlay

MODES = {
    "r": posix.O_RDONLY,
    "w": posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC,
    "a": posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND,
    "x": posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL,
}
OPENER = 5  # where it stands in the arguments of `open` behind file and mode
OF_LINKS = ("lstat", "readlink", "lchown")  # these look at a link itself


class OverlayEntry:
    """An entry of a folder that holds the user's files and the script's: what `os.DirEntry` is elsewhere."""

    def __init__(self, folder: Any, name: Any) -> None:
        self.name = name
        self.path = os.path.join(folder, name)

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """As of `os.stat`."""
        return os.stat(self.path, follow_symlinks=follow_symlinks)

    def inode(self) -> int:
        """Its number in its file system."""
        return self.stat(follow_symlinks=False).st_ino

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a folder."""
        return (follow_symlinks or not self.is_symlink()) and os.path.isdir(self.path)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a regular file."""
        return (follow_symlinks or not self.is_symlink()) and os.path.isfile(self.path)

    def is_symlink(self) -> bool:
        """Whether it is a link."""
        return os.path.islink(self.path)

    def is_junction(self) -> bool:
        """Only Windows has them."""
        return False


class Entries:
    """What `os.scandir` returns."""

    def __init__(self, entries: List[OverlayEntry]) -> None:
        self._left = iter(entries)

    def __iter__(self) -> Iterator[OverlayEntry]:
        return self

    def __next__(self) -> OverlayEntry:
        return next(self._left)

    def __enter__(self) -> Iterator[OverlayEntry]:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End it before its time."""
        self._left = iter(())


def flags(mode: str) -> int:
    """How `open` opens a file in a mode."""
    found = next((number for letter, number in MODES.items() if letter in mode), 0)
    return found | posix.O_RDWR if "+" in mode else found


class Redirect:
    """What a script's calls of `open` and of functions of `os` become: the original's, on the overlay.

    Each method stands for one function, or several of a kind, and gets the original before its arguments.
    """

    def __init__(self, overlay: WriteOverlay) -> None:
        self.overlay = overlay
        self.letting: Set[Tuple[int, str]] = set()  # (thread, path) that the caller's own opener opens

    def given(self, path: Any, dir_fd: Optional[int] = None) -> Optional[str]:
        """A path in words; None for a descriptor, and for what the original will refuse."""
        if type(path) is str:
            text = path
        elif isinstance(path, (str, bytes, os.PathLike)):
            text = os.fsdecode(path)
        else:
            return None
        if text and dir_fd is not None and not text.startswith("/"):
            return posix.readlink(f"/proc/self/fd/{dir_fd}") + "/" + text
        return text or None

    def is_ours(self, given: str) -> bool:
        """Whether a path lies where the execution may change things: in the overlay, or beside it."""
        at = os.path.normpath(given if given.startswith("/") else f"{posix.getcwd()}/{given}")
        return inside(at, self.overlay.files) or self.overlay.is_real(at)

    # ------------------------------------------------------------ opening

    def opened(self, given: str, flags: int) -> str:
        """What compiled code opens instead; where it cannot be opened, that code is to say so."""
        try:
            return self.overlay.opened(given, flags)
        except FileNotFoundError:
            return self.overlay.files + self.overlay.name(given, True)

    def stream(self, original: Any, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """`open`: the stream carries the name that it was asked for."""
        given = self.given(file)
        if given is None or not isinstance(mode, str):
            return original(file, mode, *args, **kwargs)
        if kwargs.get("opener", args[OPENER] if len(args) > OPENER else None) is not None:
            letting = (get_ident(), given)
            self.letting.add(letting)
            try:
                return original(file, mode, *args, **kwargs)
            finally:
                self.letting.discard(letting)
        at = self.overlay.opened(given, flags(mode))
        opened = original(at, mode, *args, **kwargs)
        raw = getattr(opened, "buffer", opened)
        getattr(raw, "raw", raw).name = file
        return opened

    def open(self, original: Any, path: Any, flags: int, mode: int = 0o777, *, dir_fd: Any = None) -> Any:
        """`os.open`."""
        given = self.given(path, dir_fd)
        if given is None:
            return original(path, flags, mode, dir_fd=dir_fd)
        return original(self.overlay.opened(given, flags), flags, mode)

    # ------------------------------------------------------------ looking

    def look(self, original: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Functions that only look at a path."""
        given = self.given(path, kwargs.get("dir_fd"))
        if given is None:
            return original(path, *args, **kwargs)
        kwargs.pop("dir_fd", None)
        at = self.overlay.find(given, self._follows(original, kwargs))
        return original(os.fsencode(at) if isinstance(path, bytes) else at, *args, **kwargs)

    def _follows(self, original: Any, kwargs: Dict[str, Any]) -> bool:
        """Whether a function means what a link leads to."""
        return original.__name__ not in OF_LINKS and kwargs.get("follow_symlinks", True)

    def listdir(self, original: Any, path: Any = ".") -> Any:
        """`os.listdir`."""
        given = self.given("." if path is None else path)
        if given is None:
            return original(path)
        names = self.overlay.entries(self.overlay.name(given, True))
        return [os.fsencode(name) for name in names] if isinstance(path, bytes) else names

    def scandir(self, original: Any, path: Any = ".") -> Any:
        """`os.scandir`: the system's own entries, where a folder holds nothing but the user's."""
        given = self.given("." if path is None else path)
        name = None if given is None else self.overlay.name(given, True)
        if name is None or not self.overlay.is_mixed(name):
            return original(path if name is None or self.overlay.at(name) == name else self.overlay.at(name))
        folder: Any = os.fspath("." if path is None else path)
        encode: Any = os.fsencode if isinstance(folder, bytes) else str
        return Entries([OverlayEntry(folder, encode(entry)) for entry in self.overlay.entries(name)])

    def getcwd(self, original: Any) -> Any:
        """`os.getcwd`."""
        return self.overlay.cwd()

    def getcwdb(self, original: Any) -> Any:
        """`os.getcwdb`."""
        return os.fsencode(self.overlay.cwd())

    def chdir(self, original: Any, path: Any) -> Any:
        """`os.chdir`."""
        given = self.given(path)
        return original(path if given is None else self.overlay.find(given, True))

    # ------------------------------------------------------------ changing

    def change(self, original: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Functions that change what is at a path, in place."""
        given = self.given(path, kwargs.get("dir_fd"))
        if given is None:
            return original(path, *args, **kwargs)
        kwargs.pop("dir_fd", None)
        return original(
            self.overlay.own(self.overlay.name(given, self._follows(original, kwargs))), *args, **kwargs
        )

    def make(self, original: Any, path: Any, *args: Any, dir_fd: Any = None, **kwargs: Any) -> Any:
        """Functions that make a special file."""
        given = self.given(path, dir_fd)
        if given is None:
            return original(path, *args, dir_fd=dir_fd, **kwargs)
        return original(self.overlay.new(self.overlay.name(given, False)), *args, **kwargs)

    def mkdir(self, original: Any, path: Any, mode: int = 0o777, *, dir_fd: Any = None) -> Any:
        """`os.mkdir`."""
        given = self.given(path, dir_fd)
        if given is None:
            return original(path, mode, dir_fd=dir_fd)
        return self.overlay.make_folder(self.overlay.name(given, False), mode)

    def unlink(self, original: Any, path: Any, *, dir_fd: Any = None) -> Any:
        """`os.unlink` and `os.remove`."""
        given = self.given(path, dir_fd)
        return original(path) if given is None else self.overlay.remove(self.overlay.name(given, False))

    def rmdir(self, original: Any, path: Any, *, dir_fd: Any = None) -> Any:
        """`os.rmdir`."""
        given = self.given(path, dir_fd)
        return (
            original(path) if given is None else self.overlay.remove_folder(self.overlay.name(given, False))
        )

    def rename(
        self, original: Any, src: Any, dst: Any, *, src_dir_fd: Any = None, dst_dir_fd: Any = None
    ) -> Any:
        """`os.rename` and `os.replace`."""
        source, target = self.given(src, src_dir_fd), self.given(dst, dst_dir_fd)
        if source is None or target is None:
            return original(src, dst)
        return self.overlay.rename(self.overlay.name(source, False), self.overlay.name(target, False))

    def link(self, original: Any, src: Any, dst: Any, **kwargs: Any) -> Any:
        """`os.link`."""
        source = self.given(src, kwargs.pop("src_dir_fd", None))
        target = self.given(dst, kwargs.pop("dst_dir_fd", None))
        if source is None or target is None:
            return original(src, dst)
        name = self.overlay.name(source, False)  # as Linux has it
        return original(self.overlay.own(name), self.overlay.new(self.overlay.name(target, False)))

    def symlink(
        self, original: Any, src: Any, dst: Any, target_is_directory: bool = False, **kwargs: Any
    ) -> Any:
        """`os.symlink`."""
        target = self.given(dst, kwargs.get("dir_fd"))
        if target is None or self.given(src) is None:
            return original(src, dst)
        return self.overlay.link(self.overlay.name(target, False), os.fsdecode(src))


def bound(redirect: Redirect, original: Callable[..., Any], method: Callable[..., Any]) -> Callable[..., Any]:
    """A function like `original` that does what `method` of the redirect does.

    It is a bound method: as an attribute of a class, where pathlib of old keeps such, it gets no object.
    """

    def call(redirect: Redirect, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(redirect, original, *args, **kwargs)
        except (OSError, ValueError, TypeError) as error:
            if isinstance(error, OSError) and error.filename is not None and args:
                error.filename = args[0]  # as it was given, and not where it really lies
            error.__traceback__ = None  # of our frames; the caller's follow
            raise

    call.__name__, call.__qualname__, call.__doc__ = (
        original.__name__,
        original.__qualname__,
        original.__doc__,
    )
    return MethodType(call, redirect)
