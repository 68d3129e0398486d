"""Which file systems the files that a process has open for reading are on, and how fast those can be.

Links in /proc are read and nothing is opened or asked of the file system itself: one that hangs must not take
the sampler with it. No file's name is kept, only where its file system is mounted.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from perfdoctor.model.dataclass import dataclass
from perfdoctor.watch.samplers import cgroup

MOST_FILES = 256  # of one process that are looked at
WRITE_ONLY = 1  # the lowest two bits of the flags in /proc/PID/fdinfo
NETWORK = frozenset(
    "nfs nfs4 cifs smb3 smbfs 9p lustre ceph glusterfs beegfs gpfs afs orangefs pvfs2 wekafs ncpfs".split()
)
NETWORK_FUSE = re.compile(
    r"fuse\.(?:sshfs|s3fs|gcsfuse|rclone|mount-s3|goofys|juicefs|alluxio|glusterfs|ceph|blobfuse2?|davfs)"
)
MEMORY = frozenset({"tmpfs", "ramfs", "hugetlbfs", "devtmpfs"})
NOT_DATA = ("/dev/", "/proc/", "/sys/", "/memfd:")


@dataclass(frozen=True)
class StorageMount:
    """A mounted file system. `kind`: network, rotational, solid, memory, or unknown."""

    point: str
    filesystem: str
    kind: str


class Storage:
    """The mounts of this machine as a process sees them; some come under way, when they are first used."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._table = ""
        self._mounts: list[StorageMount] = []

    def in_use(self, pids: Iterable[int]) -> list[dict[str, object]]:
        """Each mount with how many files on it these processes have open for reading."""
        counted: Counter[StorageMount] = Counter()
        for pid in pids:
            names = self._files(pid)
            if names and not counted:
                self._look_again(pid)
            counted.update(mount for name in names if (mount := self._of(name)) is not None)
        return [
            {"mount": mount.point, "fs": mount.filesystem, "kind": mount.kind, "open": count}
            for mount, count in counted.items()
        ]

    def _files(self, pid: int) -> list[str]:
        folder = self._root / "proc" / str(pid)
        files = []
        try:
            numbers = sorted(os.listdir(folder / "fd"))[:MOST_FILES]
        except OSError:
            return []  # it ended, or is not ours to look at
        for number in numbers:
            with suppress(OSError):  # a reader opens and closes files all the time
                name = os.readlink(folder / "fd" / number)
                data = (
                    name.startswith("/") and not name.startswith(NOT_DATA) and not name.endswith(" (deleted)")
                )
                if data and self._reads(folder / "fdinfo" / number):
                    files.append(name)
        return files

    def _reads(self, info: Path) -> bool:
        flags = re.search(r"^flags:\s+([0-7]+)", info.read_text(), re.MULTILINE)
        return flags is not None and int(flags[1], 8) & 3 != WRITE_ONLY

    def _of(self, name: str) -> StorageMount | None:
        around = [mount for mount in self._mounts if _holds(mount.point, name)]
        around.reverse()  # of those at one place the last one is seen
        return max(around, key=lambda mount: len(mount.point), default=None)

    def _look_again(self, pid: int) -> None:
        """Read the table of mounts anew; what it says is only worked out where it has changed."""
        try:
            table = (self._root / "proc" / str(pid) / "mountinfo").read_text(errors="replace")
        except OSError:
            return  # it has just ended
        if table != self._table:
            self._table, self._mounts = table, self._read_mounts(table)

    def _read_mounts(self, table: str) -> list[StorageMount]:
        mounts = []
        for line in table.splitlines():
            place, _, right = line.partition(" - ")
            before, after = place.split(" "), right.split(" ")
            if len(before) > 4 and len(after) > 1:
                kind = self._kind(after[0], before[2], after[1])
                mounts.append(StorageMount(cgroup.unescaped(before[4]), after[0], kind))
        return mounts

    def _kind(self, filesystem: str, device: str, source: str) -> str:
        if filesystem in NETWORK or NETWORK_FUSE.match(filesystem):
            return "network"
        if filesystem in MEMORY:
            return "memory"
        for folder in (
            self._root / "sys/dev/block" / device,
            self._root / "sys/class/block" / Path(source).name,
        ):
            for place in (folder, Path(os.path.realpath(folder)).parent):  # a partition's disk is above it
                try:
                    return (
                        "rotational" if (place / "queue/rotational").read_text().strip() == "1" else "solid"
                    )
                except OSError:
                    continue
        return "unknown"


def _holds(point: str, name: str) -> bool:
    return point == "/" or name == point or name.startswith(f"{point}/")
