"""The user's files with an execution's changes on top: an overlay, kept by Python code in one folder.

What is written lies below `FOLDER/files` under the path that it was meant for; what is removed, and which
folders have changes, stands in `FOLDER/journal`, which all processes of the execution read and append to.
The user's own files are only ever read. Functions that are replaced for the script are of no use here: hence
`posix`, not `os`.
"""

from __future__ import annotations

import errno
import posix
import stat
from typing import Dict, List, Set, Tuple

from .files import DRAFT, copy, exists, inside, is_kind, join, make_folder, move, parent

MOST_LINKS = 40  # followed in one path, as the kernel has it
WRITES = posix.O_WRONLY | posix.O_RDWR | posix.O_CREAT | posix.O_TRUNC | posix.O_APPEND
ENCODING = ("utf-8", "surrogateescape")  # as Linux has names
DOTS = ("", ".", "..")  # ends of paths that are no names
# Kinds of entries in the journal
CHANGED, GONE, LINKED = "+", "-", "l"


class WriteOverlay:
    """Where each path of the script's really lies. A name is a path from the root, without links."""

    def __init__(self, folder: str, real: Tuple[str, ...]) -> None:
        self.files = folder + "/files"
        self._journal = folder + "/journal"
        self._real = real  # below these nothing is overlaid
        self._changed: Set[str] = set()  # folders that have something in `files`, or something gone
        self._gone: Set[str] = set()  # the user's files and folders that the script removed
        self._folders: Dict[str, str] = {}  # a folder as it was named -> without links
        self._read = 0  # bytes of the journal
        self._plain: Set[str] = set()  # folders known to be the user's own, and as they were named
        make_folder(self.files, 0o700)
        posix.close(posix.open(self._journal, posix.O_CREAT | posix.O_CLOEXEC, 0o600))

    # ------------------------------------------------------------ names

    def absolute(self, path: str) -> str:
        """A path as the script means it, from the root; what it learnt of the overlay is taken back."""
        if not path.startswith("/"):
            path = f"{self.cwd()}/{path}"
        return path[len(self.files) :] or "/" if inside(path, self.files) else path

    def cwd(self) -> str:
        """The current folder, as the script sees it."""
        here = posix.getcwd()
        return here[len(self.files) :] or "/" if inside(here, self.files) else here

    def is_real(self, path: str) -> bool:
        """Whether a path lies where nothing is overlaid."""
        if not path.startswith(self._real):
            return False
        return any(inside(path, real) for real in self._real) and not inside(path, self.files)

    def name(self, path: str, follow: bool) -> str:
        """The one name of what a path means; with `follow`, of what a link at its end leads to."""
        self._catch_up()
        return self._named(self.absolute(path), follow, MOST_LINKS)

    def _named(self, path: str, follow: bool, links: int) -> str:
        folder, _, last = path.rstrip("/").rpartition("/")
        if last in DOTS:
            return self._folder(path, links)
        found = join(self._folder(folder or "/", links), last)
        if follow:
            at = self.at(found)
            if is_kind(at, stat.S_ISLNK):
                return self._named(self._target(found, at), True, _one_less(links, path))
        return found

    def _folder(self, path: str, links: int) -> str:
        """The name of a folder, remembered: paths that a script uses share them."""
        found = self._folders.get(path)
        if found is None:
            found = "/"
            for part in path.split("/"):
                if part == "..":
                    found = found.rpartition("/")[0] or "/"
                elif part not in ("", "."):
                    found = join(found, part)
                    at = self.at(found)
                    if is_kind(at, stat.S_ISLNK):
                        found = self._folder(self._target(found, at), _one_less(links, path))
            self._folders[path] = found
        return found

    def _target(self, name: str, at: str) -> str:
        target = posix.readlink(at)
        return self.absolute(target if target.startswith("/") else f"{name.rpartition('/')[0]}/{target}")

    # ------------------------------------------------------------ looking

    def find(self, path: str, follow: bool) -> str:
        """Where a path leads, for one who only looks; the short way for a dataset's many files."""
        self._catch_up()
        path = self.absolute(path)
        folder, _, last = path.rpartition("/")
        if folder in self._plain and last not in DOTS and not (follow and is_kind(path, stat.S_ISLNK)):
            return path
        name = self._named(path, follow, MOST_LINKS)
        if parent(name) == folder and not self._is_changed(name) and not self._is_gone(folder):
            self._plain.add(folder)
        return self.at(name)

    def at(self, name: str) -> str:
        """Where a name really lies; a path that is not there for one that is gone."""
        if self.is_real(name):
            return name
        upper = self.files + name
        if self._is_changed(name) and exists(upper):
            return upper
        return upper if self._is_gone(name) else name

    def exists(self, name: str) -> bool:
        """Whether the script sees anything under a name."""
        return exists(self.at(name))

    def is_folder(self, name: str) -> bool:
        """Whether a name is a folder, and no link to one."""
        return is_kind(self.at(name), stat.S_ISDIR)

    def is_mixed(self, name: str) -> bool:
        """Whether what a folder holds is not simply what lies in one place."""
        return name in self._changed

    def entries(self, name: str) -> List[str]:
        """The names in a folder. Raises the OSError that listing it would raise."""
        if not self.is_mixed(name):
            return posix.listdir(self.at(name))
        found: Dict[str, None] = {}
        if not self._is_gone(name) and is_kind(name, stat.S_ISDIR):
            found.update(
                (entry, None) for entry in posix.listdir(name) if join(name, entry) not in self._gone
            )
        if is_kind(self.files + name, stat.S_ISDIR):
            names = posix.listdir(self.files + name)
            found.update((entry, None) for entry in names if not entry.startswith(DRAFT))
        elif not found:
            return posix.listdir(self.at(name))
        return list(found)

    def _is_changed(self, name: str) -> bool:
        return parent(name) in self._changed

    def _is_gone(self, name: str) -> bool:
        if self._gone:
            while name:
                if name in self._gone:
                    return True
                name = name.rpartition("/")[0]
        return False

    # ------------------------------------------------------------ changing

    def opened(self, path: str, flags: int) -> str:
        """What to open instead of a path as the script gave it. Raises the OSError that opening would."""
        only_new = flags & posix.O_CREAT and flags & posix.O_EXCL
        follow = not (only_new or flags & posix.O_NOFOLLOW)
        if not flags & WRITES:
            return self.find(path, follow)
        name = self.name(path, follow)
        at = self.at(name)
        if self.is_real(name):
            return at
        if not exists(at):
            return self.room(name) if flags & posix.O_CREAT else self.files + name
        if only_new:
            raise _error(errno.EEXIST, path)
        if is_kind(at, stat.S_ISDIR):
            raise _error(errno.EISDIR, path)
        if not posix.access(at, posix.W_OK):
            raise _error(errno.EACCES, path)
        if flags & posix.O_CREAT and flags & posix.O_TRUNC:
            return self.room(name)
        return self.own(name)

    def room(self, name: str) -> str:
        """Where something new goes. Raises OSError as the kernel would: no such folder, or not ours."""
        if self.is_real(name):
            return name
        folder = parent(name)
        at = self.at(folder)
        if not is_kind(at, stat.S_ISDIR):
            raise _error(errno.ENOTDIR if exists(at) else errno.ENOENT, name)
        if not posix.access(folder if self._is_users(folder) else at, posix.W_OK):
            raise _error(errno.EACCES, name)
        self._make(folder)
        return self.files + name

    def new(self, name: str) -> str:
        """Where something goes that must not be there yet."""
        if self.exists(name):
            raise _error(errno.EEXIST, name)
        return self.room(name)

    def own(self, name: str, whole: bool = False) -> str:
        """Where a file or folder may be changed: in a copy; `whole` copies all that a folder holds."""
        if self.is_real(name):
            return name
        upper = self.files + name
        at = self.at(name)
        found = posix.lstat(at)
        if stat.S_ISDIR(found.st_mode):
            self._make(name)
            for entry in self.entries(name) if whole else ():
                self.own(join(name, entry), whole)
        elif at != upper:
            self._make(parent(name))
            if stat.S_ISLNK(found.st_mode):
                posix.symlink(posix.readlink(at), upper)
            elif stat.S_ISREG(found.st_mode):
                copy(at, upper)
            else:
                raise _error(errno.EPERM, name)
        return upper

    def remove(self, name: str) -> None:
        """Remove a file or a link."""
        if self.is_real(name):
            posix.unlink(name)
            return
        at = self.at(name)
        found = posix.lstat(at)
        if stat.S_ISDIR(found.st_mode):
            raise _error(errno.EISDIR, name)
        self.room(name)
        if at != name:
            posix.unlink(at)
        self._vanish(name)
        if stat.S_ISLNK(found.st_mode):
            self._write(LINKED, name)

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder."""
        if self.is_real(name):
            posix.rmdir(name)
            return
        at = self.at(name)
        if not stat.S_ISDIR(posix.lstat(at).st_mode):
            raise _error(errno.ENOTDIR, name)
        if self.entries(name):
            raise _error(errno.ENOTEMPTY, name)
        self.room(name)
        if at != name:
            posix.rmdir(at)
        self._vanish(name)

    def make_folder(self, name: str, mode: int) -> None:
        """Make a folder."""
        posix.mkdir(self.new(name), mode)
        if not self.is_real(name):
            self._write(CHANGED, name)

    def link(self, name: str, target: str) -> None:
        """Make a symbolic link to `target`, as it is written."""
        posix.symlink(target, self.new(name))
        self._write(LINKED, name)

    def rename(self, source: str, name: str) -> None:
        """Move a file, link or folder, over what may be there."""
        is_folder = stat.S_ISDIR(posix.lstat(self.at(source)).st_mode)
        if source == name:
            return
        if is_folder and inside(name, source):
            raise _error(errno.EINVAL, name)
        if inside(source, name):
            raise _error(errno.ENOTEMPTY, name)
        if self.exists(name):
            self._check_over(is_folder, name)
        origin, target = self.own(source, whole=True), self.room(name)
        self._vanish(name)
        move(origin, target)
        self._vanish(source)
        if is_folder:
            self._tell_folders(name)
        if not self.is_real(name):
            self._write(LINKED, name)  # it may be one, or have been one

    def _check_over(self, is_folder: bool, name: str) -> None:
        """Whether something may be moved over what a name is."""
        if not is_folder and self.is_folder(name):
            raise _error(errno.EISDIR, name)
        if is_folder and not self.is_folder(name):
            raise _error(errno.ENOTDIR, name)
        if is_folder and self.entries(name):
            raise _error(errno.ENOTEMPTY, name)

    def _tell_folders(self, name: str) -> None:
        if self.is_real(name):
            return
        self._write(CHANGED, name)
        for entry in posix.listdir(self.files + name):
            if is_kind(f"{self.files}{name}/{entry}", stat.S_ISDIR):
                self._tell_folders(join(name, entry))

    def _vanish(self, name: str) -> None:
        """Have the user's own under a name be gone."""
        if self._is_users(name) and not self.is_real(name):
            if parent(name) not in self._changed:
                self._write(CHANGED, parent(name))
            self._write(GONE, name)

    def _is_users(self, name: str) -> bool:
        """Whether the user's own is to be seen under a name, or would be without ours on top."""
        return not self._is_gone(name) and exists(name)

    def _make(self, folder: str) -> None:
        """Have a folder of the user's in the overlay, with those above it."""
        upper = self.files + folder
        if folder != "/" and not is_kind(upper, stat.S_ISDIR):
            self._make(parent(folder))
            make_folder(upper, stat.S_IMODE(posix.stat(folder).st_mode) | 0o700)
        if folder not in self._changed:
            self._write(CHANGED, folder)

    # ------------------------------------------------------------ the journal

    def _write(self, kind: str, name: str) -> None:
        """Tell all processes of the execution."""
        flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC
        journal = posix.open(self._journal, flags, 0o600)
        try:
            posix.write(journal, (kind + name).encode(*ENCODING) + b"\0")
        finally:
            posix.close(journal)
        self._catch_up()

    def _catch_up(self) -> None:
        """Read what was written to the journal since the last time."""
        begin = self._read
        size = posix.stat(self._journal).st_size
        if size == begin:
            return
        journal = posix.open(self._journal, posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            text = posix.pread(journal, size - begin, begin)
        finally:
            posix.close(journal)
        entries = text[: text.rfind(b"\0") + 1]
        self._plain.clear()
        for entry in entries.decode(*ENCODING).split("\0")[:-1]:
            if entry[0] == CHANGED:
                self._changed.add(entry[1:])
            else:
                self._folders.clear()
                if entry[0] == GONE:
                    self._gone.add(entry[1:])
        self._read = begin + len(entries)  # two threads may read the same, and none misses any


def _one_less(links: int, path: str) -> int:
    if not links:
        raise _error(errno.ELOOP, path)
    return links - 1


def _error(number: int, path: str) -> OSError:
    return OSError(number, posix.strerror(number), path)
