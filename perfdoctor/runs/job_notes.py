"""What to say of a job beside its times: ranks that are missing, other versions, fewer steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perfdoctor.model.ranks import rank_list
from perfdoctor.runs.directory import Json
from perfdoctor.runs.records import Folder, whole

SHOWN = 6  # names of one kind; more are counted
LIKE = 1  # ranks may be a step apart when a job is ended


def typed(path: Path) -> str:
    """A folder as it can be typed here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def absent(folders: Sequence[Folder], ranks: Sequence[int], missing: Collection[int]) -> Iterator[str]:
    """Why ranks may be missing: they recorded nothing, or their node's folder is not there."""
    told = {whole(boot.get("job"), "rank") for folder in folders for boot in folder.boots}
    booted = [rank for rank in missing if rank in told]
    if booted:
        yield f"{rank_list(booted)} started but recorded nothing"
    elsewhere = [rank for rank in missing if rank not in told]
    size = ranks_of_a_node(folders)
    if not elsewhere:
        return
    join = f"perfdoctor report {' '.join(typed(folder.path) for folder in folders[:2])}"
    join += " ... ITS_FOLDER" if len(folders) > 2 else " ITS_FOLDER"
    if size is None:  # each task has its own folder
        yield f"{rank_list(elsewhere)} may have recorded elsewhere: {join}"
        return
    nodes = sorted({rank // size for rank in elsewhere} - {rank // size for rank in ranks})
    if nodes:
        which = ", ".join(map(str, nodes[:SHOWN])) + (" ..." if len(nodes) > SHOWN else "")
        away = rank_list(rank for rank in elsewhere if rank // size in nodes)
        yield f"the folder of node{'s' if len(nodes) > 1 else ''} {which} is not here ({away}): {join}"


def ranks_of_a_node(folders: Iterable[Folder]) -> int | None:
    """How many ranks each node has, where the launcher told and it is the same on all."""
    sizes = {whole(process.job, "local_world") for folder in folders for process in folder.processes.values()}
    return (sizes.pop() or None) if len(sizes) == 1 else None


def mixed(held: Mapping[int, Folder]) -> Iterator[str]:
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
            versions = (f"{version} ({rank_list(own)})" for version, own in sorted(ranks.items())[:SHOWN])
            yield f"the ranks have different versions of {what}: {', '.join(versions)}"


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def unequal(steps: Mapping[int, int]) -> Iterator[str]:
    """That ranks made different numbers of steps."""
    if not steps:
        return
    low, high = min(steps.values()), max(steps.values())
    if high - low > LIKE:
        fewest = [rank for rank, count in steps.items() if count <= low + LIKE]
        yield f"the ranks took {low:,} to {high:,} steps, {rank_list(fewest)} the fewest"


def unended(folders: Sequence[Folder]) -> Iterator[str]:
    """Which of several folders were still being written, or lost."""
    names = [folder.path.name for folder in folders if folder.run.get("outcome") == "running"]
    if names and len(folders) > 1:
        more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
        yield f"still running, or lost: {', '.join(names[:SHOWN])}{more}"
