"""Keeps a command from changing files, and becomes it: the same process, terminal, signals and exit status.

    python -I -S overlay.py overlay EXECUTION BYTES COMMAND...
    python -I -S overlay.py landlock EXECUTION TEMPORARY COMMAND...
    python -I -S overlay.py redirect EXECUTION TEMPORARY COMMAND...

`overlay` gives the command a mount namespace of its own, in which every file system that it could write to is
covered by an overlay: what it changes lands in EXECUTION/view (in memory, at most BYTES, where that is not
0), and EXECUTION itself is the real one. `landlock` has the kernel's Landlock refuse whatever would change a
file outside EXECUTION and TEMPORARY; `redirect` has not. Both tell the probe, by EXECUTION/diverted, to lead
writes there.

Runs before each execution, hence only what an interpreter without `site` starts with, and ctypes.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterator

# linux/sched.h, sys/mount.h, linux/prctl.h
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE, MS_RELATIME = 1, 32, 4096, 16384, 1 << 19, 1 << 21
ST_RELATIME = 4096
LOCKED_FLAGS = 2 | 4 | 8 | 1024 | 2048  # nosuid, nodev, noexec, noatime, nodiratime: same bits in ST_ and MS_
MNT_DETACH = 2
PR_SET_NO_NEW_PRIVS = 38
SIGPIPE, SIGXFSZ = 13, 25  # Python ignores them, and a program started from it would inherit that
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}  # C libraries have no function for it
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446  # the same on all machines
# Writing, removing and making files of all kinds; by version of Landlock: moving between folders, truncating.
LANDLOCK_WRITES = (1 << 1) | sum(1 << bit for bit in range(4, 13))
LANDLOCK_LATER = {2: 1 << 13, 3: 1 << 14}

REAL = ("/dev", "/proc", "/sys", "/run")  # devices, the kernel's, shared memory, sockets: emptied at boot
NOTHING_TO_COPY = frozenset(  # file systems that hold no files of a user's, wherever they are mounted
    "proc sysfs devtmpfs devpts cgroup cgroup2 mqueue debugfs tracefs securityfs pstore bpf configfs fusectl "
    "hugetlbfs binfmt_misc efivarfs autofs rpc_pipefs nsfs selinuxfs resctrl".split()
)
NO_DISKS = frozenset("tmpfs ramfs fuse.portal fuse.gvfsd-fuse".split())  # others in /run are: in /run/media
MOST_OVERLAYS = 200  # each costs every execution a mount; beyond that folders are read-only
# Where scripts and libraries write, if they lie in folders that the user does not own.
PLACES = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "HF_HOME", "TORCH_HOME")
TEMPORARY = "/var/tmp"
UNMAPPED = 65534  # what the kernel shows in a user namespace for other users and groups
MPS_FOLDER = "/tmp/nvidia-mps"  # CUDA's default for the pipes of its multi-process service
FAILED = 125  # as env and docker tell that they, not the command, failed

_libc = ctypes.CDLL(None, use_errno=True)


class MountInfo:
    """A mounted file system: one line of /proc/self/mountinfo."""

    def __init__(self, line: str) -> None:
        place, _, right = line.partition(" - ")
        fields = place.split(" ")
        self.id, self.parent = fields[0], fields[1]
        self.point = os.fsdecode(os.fsencode(fields[4]).decode("unicode_escape").encode("latin-1"))
        self.kind = right.split(" ")[0]
        self.writable = "rw" in fields[5].split(",") and "rw" in right.split(" ")[2].split(",")
        self.is_in_real = any(inside(self.point, real) for real in REAL)
        self.is_disk = inside(self.point, "/run/") and self.kind not in NO_DISKS | NOTHING_TO_COPY


def mounts(text: str) -> list[MountInfo]:
    """What mountinfo lists and a path can reach, parents first. Raises OSError where there is no root."""
    table = [MountInfo(line) for line in text.splitlines()]
    ids = {mount.id for mount in table}
    roots = [mount for mount in table if mount.point == "/" and mount.parent not in ids - {mount.id}]
    if not roots:
        raise OSError("the root of the file system is no mount point")
    return list(_reachable(roots[0], table))


def _reachable(mount: MountInfo, table: list[MountInfo]) -> Iterator[MountInfo]:
    below = [other for other in table if other.parent == mount.id and other is not mount]
    covers = [other for other in below if other.point == mount.point]
    if covers:  # mounted right on top of it, which hides all the rest
        yield from _reachable(covers[-1], table)
        return
    yield mount
    for other in below:
        if not any(inside(other.point, hides.point) and other is not hides for hides in below):
            yield from _reachable(other, table)


def inside(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies below it; both absolute."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def mounted() -> list[MountInfo]:
    """The mounts of this process. Raises OSError where there is no root."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        return mounts(file.read())


def real_folders() -> Iterator[str]:
    """The folders in REAL that are shown as they are, as whole as they can be without disks in them."""
    points = [mount.point for mount in mounted() if mount.is_disk] if sys.platform == "linux" else []
    waiting = list(filter(os.path.isdir, REAL))
    for folder in waiting:  # grows meanwhile
        if not any(inside(point, folder) for point in points):
            yield folder
        elif folder not in points and os.access(folder, os.R_OK):
            waiting += [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]


class Overlay:
    """A new root, built beside the old one: overlays on what can be written to, binds of all the rest."""

    def __init__(self, stage: str, layers: str, cwd: str, privileged: bool) -> None:
        self.root = os.path.join(stage, "root")
        self.read_only: list[str] = []  # folders that could not be covered
        self._layers = layers
        self._cwd = cwd
        self._privileged = privileged
        self._covered: set[str] = set()
        self._mounts = mounted()
        self._points = {mount.point for mount in self._mounts}

    def build(self) -> None:
        """Make the new root. Raises OSError where the current folder cannot be covered."""
        os.mkdir(self.root)
        if not self._privileged:
            _mount("tmpfs", self.root, "tmpfs", 0, "mode=755")
        for mount in self._mounts:
            if not mount.is_in_real:
                self._show(mount)
        for folder in REAL:
            if self._is_real(folder) and os.path.isdir(folder):
                self._bind(folder)
        for mount in self._mounts:  # on top of what is bound, with all that is mounted below
            if mount.is_in_real and not self._is_real(mount.point):
                self._show(mount)
        if not self._privileged:
            self._reach()
        for path in _meeting_points():
            if os.path.lexists(self.root + path) and not self._is_real(path):
                self._bind(path)

    def _is_real(self, path: str) -> bool:
        """Whether a path is shown as it is; not what the current folder is on, should that be in there."""
        real = next((real for real in REAL if inside(path, real)), None)
        if real is None or any(mount.is_disk and inside(path, mount.point) for mount in self._mounts):
            return False
        return not inside(self._cwd, real) or self._point(path) != self._point(self._cwd)

    def _point(self, path: str) -> str:
        """Where the file system that holds a path is mounted."""
        return max((point for point in self._points if inside(path, point)), key=len)

    def _show(self, mount: MountInfo) -> None:
        """Cover a mount if something could be written to it, else show it as it is."""
        if mount.writable and mount.kind not in NOTHING_TO_COPY:
            self._copy(mount.point)
        else:
            self._bind(mount.point)

    def _copy(self, point: str) -> None:
        """Cover a mount, all of it or read-only; the one with the current folder must be covered."""
        try:
            if self._privileged or not self._mounted_below(point):
                self._cover(point)
            else:
                self._cover_entries(point)
        except OSError:
            if inside(self._cwd, point):
                raise
            self._freeze(point)

    def _mounted_below(self, path: str) -> bool:
        return any(inside(point, path) and point != path for point in self._points)

    def _cover(self, path: str) -> None:
        """Mount an overlay on one folder; paths go in as descriptors, which need no escapes."""
        if not os.path.isdir(path) or len(self._covered) == MOST_OVERLAYS:
            raise OSError(f"{path} cannot be covered")
        layer = os.path.join(self._layers, str(len(self._covered)))
        upper, work = os.path.join(layer, "upper"), os.path.join(layer, "work")
        os.makedirs(upper)
        os.mkdir(work)
        _like(path, upper, self._privileged)
        folders = [os.open(folder, os.O_PATH | os.O_DIRECTORY) for folder in (path, upper, work)]
        names = zip(("lowerdir", "upperdir", "workdir"), folders, strict=True)
        # In a user namespace: with attributes that it may set, which folders made anew need.
        more = "redirect_dir=on" if self._privileged else "userxattr"
        data = ",".join([*(f"{name}=/proc/self/fd/{folder}" for name, folder in names), more])
        try:
            _mount("overlay", self._target(path), "overlay", 0, data)
        finally:
            for folder in folders:
                os.close(folder)
        self._covered.add(path)

    def _cover_entries(self, path: str) -> None:
        """Cover each entry by itself: a user namespace may not take a folder without the mounts in it."""
        try:
            entries = list(os.scandir(path))
        except PermissionError:
            self._freeze(path)
            return
        for entry in entries:
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), self._target(entry.path))
                continue
            _place(entry.path, self._target(entry.path))
            if entry.path in self._points or self._is_real(entry.path):
                continue  # its turn comes
            if entry.is_dir() and self._mounted_below(entry.path):
                self._cover_entries(entry.path)
            else:
                self._cover_or_freeze(entry.path)
        os.chmod(self._target(path), stat.S_IMODE(os.stat(path).st_mode))
        self._covered.add(path)  # its own entries are new ones

    def _reach(self) -> None:
        """Cover folders of others that the user's lie in: an overlay further up would have to copy those."""
        places = (self._cwd, TEMPORARY, *filter(None, map(os.environ.get, PLACES)))
        foreign = {self._foreign(os.path.realpath(place)) for place in places if os.path.isdir(place)}
        for folder in sorted(foreign - self._covered):  # parents first: they would hide what is below
            if not self._is_real(folder):
                self._cover_or_freeze(folder)

    def _foreign(self, folder: str) -> str:
        """The nearest folder upwards that is another user's, or covered already."""
        while folder not in self._covered:
            status = os.stat(folder)
            if UNMAPPED in (status.st_uid, status.st_gid):
                break
            folder = os.path.dirname(folder)
        return folder

    def _cover_or_freeze(self, path: str) -> None:
        """Cover a folder, or let nobody change it; what the current folder is in must be covered."""
        try:
            self._cover(path)
        except OSError:
            if inside(self._cwd, path):
                raise
            self._freeze(path)

    def _freeze(self, path: str) -> None:
        """Show a folder or file that cannot be covered, but let nobody change it."""
        if self._bind(path):
            flags = os.statvfs(path).f_flag
            options = (flags & LOCKED_FLAGS) | (MS_RELATIME if flags & ST_RELATIME else 0)
            _mount("none", self._target(path), "", MS_REMOUNT | MS_BIND | MS_RDONLY | options)
            if os.path.isdir(path):
                self.read_only.append(path)

    def _bind(self, path: str) -> bool:
        """Show a folder or file as it is, with all that is mounted below; False where it cannot be shown."""
        try:
            _mount(path, self._target(path), "", MS_BIND | MS_REC)
        except OSError:
            return False  # not to be seen in the overlay, as another user's FUSE mount would not be
        return True

    def _target(self, path: str) -> str:
        return self.root + path.rstrip("/")

    def enter(self, execution: str) -> None:
        """Make this the root, with the execution's real folder in it."""
        _mount(execution, self._target(execution), "", MS_BIND)
        os.chdir(self.root)
        machine = os.uname().machine
        if machine not in PIVOT_ROOT:
            raise OSError(f"no overlay on {machine}")
        _check(_libc.syscall(PIVOT_ROOT[machine], b".", b"."), "pivot_root")
        _check(_libc.umount2(b".", MNT_DETACH), "umount")
        os.chdir(self._cwd)


def _meeting_points() -> Iterator[str]:
    """Sockets and pipes through which the command meets processes outside: an overlay would cut them off."""
    with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.rstrip("\n").split(maxsplit=7) for line in file]
    yield from sorted({line[7] for line in lines if len(line) == 8 and line[7].startswith("/")})
    yield os.environ.get("CUDA_MPS_PIPE_DIRECTORY", MPS_FOLDER)


def _place(path: str, target: str) -> None:
    """An empty folder or file to mount on."""
    if os.path.isdir(path):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))


def _like(path: str, upper: str, privileged: bool) -> None:
    """Give the top of an overlay the looks of what it covers: the overlay has them from there."""
    status = os.stat(path)
    if privileged:
        os.chown(upper, status.st_uid, status.st_gid)
    os.chmod(upper, stat.S_IMODE(status.st_mode))
    os.utime(upper, ns=(status.st_atime_ns, status.st_mtime_ns))


def _check(status: int, what: str) -> None:
    if status < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    words = [os.fsencode(word) or None for word in (source, target, kind)]
    _check(_libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(data) or None), target)


def apart() -> bool:
    """Move to a mount namespace of our own; whether as the machine's root. Raises OSError if we may not."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:  # not into a user namespace: root would lose its rights over other users' files
        _check(_libc.unshare(CLONE_NEWNS), "unshare")
    else:
        _check(_libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    _mount("none", "/", "", MS_REC | MS_SLAVE)  # what is mounted here stays here
    with open("/proc/self/uid_map", encoding="ascii") as file:
        return file.read().split() == ["0", "0", "4294967295"]  # root of the machine, not of a container


def enter_overlay(execution: str, size: int) -> None:
    """Enter an overlay whose changes land in the execution's folder, or in up to `size` bytes of memory."""
    stage, cwd = os.path.join(execution, "view"), os.getcwd()
    os.mkdir(stage, 0o700)
    layers = os.path.join(stage, "layers")
    os.mkdir(layers)
    privileged = apart()
    if size:
        _mount("tmpfs", layers, "tmpfs", 0, f"size={size},mode=700")
    built = Overlay(stage, layers, cwd, privileged)
    built.build()
    with open(os.path.join(stage, "read-only"), "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(f"{path}\n" for path in built.read_only)
    built.enter(execution)


def restrict_writes(folders: list[str]) -> None:
    """Have the kernel refuse to change files outside `folders`. Raises OSError where it has no Landlock."""
    version = _libc.syscall(LANDLOCK_CREATE, None, 0, 1)
    _check(version, "landlock")
    rights = LANDLOCK_WRITES | sum(right for since, right in LANDLOCK_LATER.items() if version >= since)
    request = ctypes.c_uint64(rights)
    rules = _libc.syscall(LANDLOCK_CREATE, ctypes.byref(request), 8, 0)
    _check(rules, "landlock")
    for folder in folders:
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        rule = rights.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)
        _check(_libc.syscall(LANDLOCK_ADD, rules, 1, rule, 0), folder)
        os.close(descriptor)
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    _check(_libc.syscall(LANDLOCK_RESTRICT, rules, 0), "landlock")
    os.close(rules)


def become(command: list[str]) -> None:
    """Replace this process by the command, as it would have been started without us."""
    for number in (SIGPIPE, SIGXFSZ):
        _libc.signal(number, None)
    with open("/proc/self/environ", "rb") as file:  # not os.environ: Python may have set a locale
        entries = [entry.partition(b"=") for entry in file.read().split(b"\0") if b"=" in entry]
    os.execvpe(command[0], command, {name: value for name, _, value in entries})


def main(words: list[str]) -> int:
    """Enter what was asked for and become the command; returns the exit status only where that failed."""
    how, execution, detail, *command = words
    try:
        if how == "overlay":
            enter_overlay(execution, int(detail))
        else:
            for folder in (os.path.join(execution, "diverted"), detail):
                os.mkdir(folder, 0o700)
            if how == "landlock":
                restrict_writes([execution, detail, *real_folders()])
    except OSError as error:
        sys.stderr.write(f"perfdoctor: cannot protect files: {error}\n")
        return FAILED
    try:
        become(command)
    except OSError as error:
        sys.stderr.write(f"perfdoctor: {command[0]}: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
