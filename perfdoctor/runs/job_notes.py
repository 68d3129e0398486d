"""What to say of a job beside its times: ranks that are missing, other versions, fewer steps."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perfdoctor.model.note import Note
from perfdoctor.runs.directory import Json
from perfdoctor.runs.records import Folder, whole

UNENDED = ("running", "lost")
LIKE = 1  # ranks may be a step apart when a job is ended


def typed(path: Path) -> str:
    """A folder as it can be typed here."""
    try:
        here = Path.cwd()
    except OSError:  # it was removed
        return shlex.quote(str(path))
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def absent(folders: Sequence[Folder], ranks: Sequence[int], missing: Collection[int]) -> Iterator[Note]:
    """Why ranks may be missing: they recorded nothing, or their node's folder is not there."""
    told = {whole(boot.get("job"), "rank") for folder in folders for boot in folder.boots}
    booted = [rank for rank in missing if rank in told]
    if booted:
        yield Note("recorded-nothing", {"ranks": booted})
    elsewhere = [rank for rank in missing if rank not in told]
    size = ranks_of_a_node(folders)
    if not elsewhere:
        return
    join = f"perfdoctor report {' '.join(typed(folder.path) for folder in folders[:2])}"
    join += " ... ITS_FOLDER" if len(folders) > 2 else " ITS_FOLDER"
    if size is None:  # each task has its own folder
        yield Note("ranks-elsewhere", {"ranks": elsewhere, "join": join})
        return
    nodes = {rank // size for rank in elsewhere} - {rank // size for rank in ranks}
    if nodes:
        away = [rank for rank in elsewhere if rank // size in nodes]
        yield Note("nodes-not-here", {"nodes": sorted(nodes), "ranks": away, "join": join})


def ranks_of_a_node(folders: Iterable[Folder]) -> int | None:
    """How many ranks each node has, where the launcher told and it is the same on all."""
    sizes = {whole(process.job, "local_world") for folder in folders for process in folder.processes.values()}
    return (sizes.pop() or None) if len(sizes) == 1 else None


def mixed(held: Mapping[int, Folder]) -> Iterator[Note]:
    """Versions that are not the same on all ranks."""
    tellers: dict[str, Callable[[int, Folder], Any]] = {
        "perfdoctor": lambda rank, folder: _object(folder.run.get("versions")).get("perfdoctor"),
        "torch": lambda rank, folder: folder.processes[rank].boot.get("torch"),
        "Python": lambda rank, folder: folder.processes[rank].boot.get("python"),
    }
    for what, of_rank in tellers.items():
        ranks: dict[str, list[int]] = {}
        for rank, folder in held.items():
            version = of_rank(rank, folder)
            if isinstance(version, str):
                ranks.setdefault(version, []).append(rank)
        if len(ranks) > 1:
            yield Note("different-versions", {"what": what, "versions": ranks})


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def unequal(steps: Mapping[int, int]) -> Iterator[Note]:
    """That ranks made different numbers of steps."""
    if not steps:
        return
    low, high = min(steps.values()), max(steps.values())
    if high - low > LIKE:
        fewest = [rank for rank, count in steps.items() if count <= low + LIKE]
        yield Note("unequal-steps", {"low": low, "high": high, "ranks": fewest})


def unended(folders: Sequence[Folder]) -> Iterator[Note]:
    """Which of several folders were still being written, or lost."""
    names = [folder.path.name for folder in folders if folder.run.get("outcome") in UNENDED]
    if names and len(folders) > 1:
        yield Note("unended-runs", {"names": names})
