"""What the kernel's control groups leave of the machine: CPU quotas and CPU sets, version 1 and 2.

psutil and os.cpu_count report the host's cores inside a container; the limits are in files that are read
here. A limit may sit on any group above ours, so every level up to the mount is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from perfdoctor.model.dataclass import dataclass

UNLIMITED_BYTES = 1 << 60  # version 1 writes "no limit" as the largest multiple of a page


@dataclass(frozen=True)
class CgroupLimits:
    """Cores that control groups leave to a process; None where nothing limits them."""

    quota_cores: float | None
    cpuset_cores: int | None


@dataclass(frozen=True)
class _Hierarchy:
    """One mounted hierarchy: where it is, which part of it is shown there, what it controls."""

    point: Path
    shown: str
    controllers: frozenset[str]  # empty for version 2


def limits(pid: int | None = None, root: Path = Path("/")) -> CgroupLimits:
    """The tightest limits on `pid` (this process where None), below a file system that starts at `root`."""
    quotas: list[float] = []
    sets: list[int] = []
    for folder in _folders(pid, root):
        quotas.extend(_quota(folder))
        sets.extend(_cpuset(folder))
    return CgroupLimits(min(quotas, default=None), min(sets, default=None))


def memory_left_bytes(pid: int | None = None, root: Path = Path("/")) -> int | None:
    """Memory that control groups leave to `pid` (this process where None); None where none limits it."""
    return memory(pid, root)[1]


def memory(pid: int | None = None, root: Path = Path("/")) -> tuple[int | None, int | None]:
    """The tightest limit, and the least that is left, in bytes; None where no control group limits it."""
    found = [pair for folder in _folders(pid, root) for pair in _memory_limits(folder)]
    return min((limit for limit, _ in found), default=None), min((left for _, left in found), default=None)


def memory_kills(pid: int | None = None, root: Path = Path("/")) -> int | None:
    """How many processes the kernel has ended for want of memory; None where it does not tell.

    Those of the innermost group of `pid` (this process where None), else those of the whole machine.
    """
    files = [
        folder / name for folder in _folders(pid, root) for name in ("memory.events", "memory.oom_control")
    ]
    for file in (*files, root / "proc" / "vmstat"):
        told = re.search(r"^oom_kill (\d{1,18})$", _text(file), re.MULTILINE)
        if told:
            return int(told[1])
    return None


def _folders(pid: int | None, root: Path) -> Iterator[Path]:
    """The folders of all groups that a process is in, and of those above."""
    process = root / "proc" / ("self" if pid is None else str(pid))
    mounts = _mounts(process / "mountinfo", root)
    for controllers, group in _groups(process / "cgroup"):
        for mount in mounts:
            # Version 2 has an empty controller list on both sides; named v1 hierarchies control nothing.
            if mount.controllers == controllers or mount.controllers & controllers:
                yield from _upwards(mount, group)


def _groups(path: Path) -> Iterator[tuple[frozenset[str], str]]:
    for line in _text(path).splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            yield frozenset(filter(None, parts[1].split(","))), parts[2]


def _mounts(path: Path, root: Path) -> list[_Hierarchy]:
    mounts = []
    for line in _text(path).splitlines():
        place, _, right = line.partition(" - ")
        before, after = place.split(" "), right.split(" ")
        if len(before) < 5 or len(after) < 3 or after[0] not in ("cgroup", "cgroup2"):
            continue
        controllers = frozenset(after[2].split(",")) - {"rw", "ro"} if after[0] == "cgroup" else frozenset()
        point = root / unescaped(before[4]).lstrip("/")
        mounts.append(_Hierarchy(point, unescaped(before[3]), controllers))
    return mounts


def _upwards(mount: _Hierarchy, group: str) -> Iterator[Path]:
    """The group's folder and every folder above it that the mount shows."""
    inside = group
    if mount.shown != "/":
        # A container without its own cgroup namespace sees host paths, and its own group at the mount.
        inside = group[len(mount.shown) :] if f"{group}/".startswith(f"{mount.shown}/") else ""
    parts = [part for part in inside.split("/") if part]
    if ".." in parts:
        parts = []
    while parts:
        yield mount.point.joinpath(*parts)
        parts.pop()
    yield mount.point


def _quota(folder: Path) -> Iterator[float]:
    """The group's own quota in cores, if it has one."""
    words = _text(folder / "cpu.max").split()
    if not words:
        words = [_text(folder / "cpu.cfs_quota_us").strip(), _text(folder / "cpu.cfs_period_us").strip()]
    # "max" and -1 are no quota
    if len(words) == 2 and all(word.isdigit() and int(word) > 0 for word in words):
        yield int(words[0]) / int(words[1])


INACTIVE = ("total_inactive_file", "inactive_file")  # version 1 has both: with the groups below, and without


def _memory_limits(folder: Path) -> Iterator[tuple[int, int]]:
    """The group's own limit, if any, and what it leaves; file pages that can be dropped do not count."""
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        words = _text(folder / limit).strip(), _text(folder / used).strip()
        if not all(word.isdigit() for word in words) or int(words[0]) >= UNLIMITED_BYTES:
            continue
        stat = _text(folder / "memory.stat")
        totals = (re.search(rf"^{name} (\d+)$", stat, re.MULTILINE) for name in INACTIVE)
        cached = next(filter(None, totals), None)
        yield int(words[0]), max(0, int(words[0]) - int(words[1]) + (int(cached[1]) if cached else 0))


def _cpuset(folder: Path) -> Iterator[int]:
    """How many cores the group may run on; the effective list where the kernel shows one."""
    for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
        count = count_cpus(_text(folder / name))
        if count:
            yield count
            return


def count_cpus(text: str) -> int:
    """The number of CPUs in a kernel list such as `0-3,8`; 0 where it is empty or not one."""
    total = 0
    for part in text.strip().split(",") if text.strip() else ():
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            return 0
        total += int(last) - int(first) + 1 if dash else 1
    return total


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def unescaped(field: str) -> str:
    """A field of mountinfo as it is: blanks and backslashes stand there as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
