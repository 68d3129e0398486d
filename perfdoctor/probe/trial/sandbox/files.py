"""What lies at a path, and copies of it; with functions that nobody has replaced, hence `posix`, not `os`."""

from __future__ import annotations

import errno
import posix
import stat
from _thread import get_ident
from typing import Callable

CHUNK_BYTES = 1 << 22
DRAFT = ".perfdoctor-draft."  # begins the name of a copy that is not complete


def inside(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies below it; both absolute, without a slash at the end."""
    return path.startswith(folder) and path[len(folder) : len(folder) + 1] in ("", "/")


def join(folder: str, name: str) -> str:
    """The path of an entry of a folder."""
    return f"/{name}" if folder == "/" else f"{folder}/{name}"


def parent(name: str) -> str:
    """The folder that something is in; of the root, the root."""
    return name.rpartition("/")[0] or "/"


def exists(path: str) -> bool:
    """Whether there is something at a path, be it a link that leads nowhere."""
    return is_kind(path, bool)


def is_kind(path: str, kind: Callable[[int], bool]) -> bool:
    """Whether what is at a path is of a kind, as `stat` tells it; links are not followed."""
    try:
        return kind(posix.lstat(path).st_mode)
    except OSError:
        return False


def make_folder(path: str, mode: int) -> None:
    """Make a folder, unless another process was faster."""
    try:
        posix.mkdir(path, mode)
    except FileExistsError:
        pass


def copy(source: str, target: str) -> None:
    """Copy a file; other processes see all of it or nothing."""
    found = posix.stat(source)
    draft = f"{parent(target)}/{DRAFT}{posix.getpid()}.{get_ident()}"
    reader = posix.open(source, posix.O_RDONLY | posix.O_CLOEXEC)
    writer = posix.open(draft, posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_CLOEXEC, 0o600)
    try:
        while chunk := posix.read(reader, CHUNK_BYTES):
            while chunk:
                chunk = chunk[posix.write(writer, chunk) :]
    finally:
        posix.close(reader)
        posix.close(writer)
    posix.chmod(draft, stat.S_IMODE(found.st_mode))
    posix.utime(draft, ns=(found.st_atime_ns, found.st_mtime_ns))
    posix.rename(draft, target)


def move(source: str, target: str) -> None:
    """Rename, or copy and remove: between file systems, and where an old Landlock forbids other folders."""
    try:
        posix.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        if is_kind(source, stat.S_ISDIR):
            posix.mkdir(target)
            for entry in posix.listdir(source):
                move(f"{source}/{entry}", f"{target}/{entry}")
            posix.rmdir(source)
        else:
            if is_kind(source, stat.S_ISLNK):
                posix.symlink(posix.readlink(source), target)
            else:
                copy(source, target)
            posix.unlink(source)
