"""What a run directory holds, read back whole or broken.

Raw files are append-only and readable at any moment; a missing or truncated one becomes a sentence in
`RunRecords.problems`. Nothing in here runs or unpickles anything that it reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson

from perfdoctor.errors import NoSuchRun, NotARun
from perfdoctor.rundir import HEADER_BYTES, SHARING, Json, read_json

MAX_STACK_LINES = 2_000_000  # a folded-stack file past this is cut, and said so

Rows = npt.NDArray[np.void]
Stack = tuple[tuple[str, ...], int]


@dataclass(frozen=True)
class RankRecords:
    """What one rank's process and its loader workers recorded."""

    rank: int
    steps: Rows | None
    loader: Rows | None
    events: tuple[Json, ...]
    stacks: tuple[Stack, ...] = ()
    stacks_source: str | None = None

    def of(self, event: str) -> list[Json]:
        """The events of one kind, in order."""
        return [entry for entry in self.events if entry.get("event") == event]


@dataclass(frozen=True)
class RunRecords:
    """Everything a run directory holds, as read."""

    path: Path
    run: Json
    ranks: Mapping[int, RankRecords]
    boots: tuple[Json, ...] = ()
    host: tuple[Json, ...] = ()
    gpus: Mapping[int, tuple[Json, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    sharing: Json | None = None  # of perfdoctor.contention


def read(path: Path) -> RunRecords:
    """Read a run directory; what cannot be read is listed in `problems`.

    Raises NoSuchRun where there is no such folder and NotARun where it is not a run's.
    """
    if not path.is_dir():
        raise NoSuchRun(f"there is no run at {path}", "list the runs here with: perfdoctor runs")
    problems: list[str] = []
    run = read_json(path / "run.json")
    if run is None or not str(run.get("schema", "")).startswith("perfdoctor.run/"):
        if not any(path.glob("steps.rank*.bin")):
            raise NotARun(f"{path} is not a run of perfdoctor", "list the runs here with: perfdoctor runs")
        problems.append("run.json cannot be read: command and exit status are not known")
        run = {}
    ranks = _read_ranks(path, problems)
    gpus = {
        int(file.stem[3:]): tuple(_lines(file, problems)) for file in sorted(path.glob("gpu[0-9]*.jsonl"))
    }
    boots = tuple(_lines(path / "boot.jsonl", problems))
    host = tuple(_lines(path / "host.jsonl", problems))
    sharing = read_json(path / SHARING)
    return RunRecords(path, run, ranks, boots, host, gpus, tuple(problems), sharing)


def _read_ranks(path: Path, problems: list[str]) -> dict[int, RankRecords]:
    """Each rank's process; where several processes of one rank trained, the one with the most rows."""
    found: dict[int, list[RankRecords]] = {}
    for tag in sorted(_tags(path)):
        found.setdefault(int(tag.split(".")[0][4:]), []).append(_read_process(path, tag, problems))
    for rank, several in found.items():
        if len(several) > 1:
            problems.append(
                f"{len(several)} processes of rank {rank} trained: the one with the most steps is shown"
            )
    return {rank: max(several, key=_length) for rank, several in sorted(found.items())}


def _tags(path: Path) -> set[str]:
    """`rank0`, or `rank0.<pid>` for a further process of the same rank."""
    names = (
        re.fullmatch(r"(?:steps|events)\.(rank\d+(?:\.\d+)?)\.\w+", entry.name) for entry in path.iterdir()
    )
    return {match[1] for match in names if match}


def _length(records: RankRecords) -> list[int]:
    """How much a process trained: markers of each kind, the strongest first."""
    steps = records.steps
    if steps is None:
        return []
    return [int(np.sum(steps["marks"][steps["marker"] == marker])) for marker in (4, 3, 2, 1)]


def _read_process(path: Path, tag: str, problems: list[str]) -> RankRecords:
    steps = read_rows(path / f"steps.{tag}.bin", problems)
    events = tuple(_lines(path / f"events.{tag}.jsonl", problems))
    parts = [read_rows(path / f"{name}.{tag}.bin", problems) for name in ("loader", "workers")]
    kept = [part for part in parts if part is not None and len(part)]
    alike = [part for part in kept if part.dtype == kept[0].dtype]
    loader = _with_loaders(np.concatenate(alike), events) if alike else None
    source, stacks = _read_stacks(path / f"stacks.{tag}.txt", problems)
    return RankRecords(int(tag.split(".")[0][4:]), steps, loader, events, stacks, source)


def _with_loaders(rows: Rows, events: tuple[Json, ...]) -> Rows:
    """Fill in the loader of rows from spawned workers, which do not know whose they are."""
    if np.all(rows["loader"]):
        return rows
    epochs = (event for event in events if event.get("event") == "epoch")
    owners: dict[int, int] = {}
    for event in epochs:
        loader, workers = event.get("loader"), event.get("workers")
        if isinstance(loader, int) and isinstance(workers, list):
            owners.update((pid, loader) for pid in workers if isinstance(pid, int))
    unknown = rows["loader"] == 0
    rows["loader"][unknown] = [owners.get(int(pid), 0) % 65536 for pid in rows["pid"][unknown]]
    return rows


def read_rows(path: Path, problems: list[str]) -> Rows | None:
    """The valid rows of a fixed-width file, or None where it is missing or not one."""
    try:
        with open(path, "rb") as file:
            layout = _layout(file.read(HEADER_BYTES))
            if layout is None:
                problems.append(f"{path.name} has no readable header and was left out")
                return None
            rows: Rows = np.fromfile(file, dtype=layout)  # a row cut short at the end is not read
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(f"{path.name} cannot be read: {error.strerror}")
        return None
    written = np.flatnonzero(rows["end_ns"])
    if len(written) and written[-1] == len(written) - 1:
        return rows[: len(written)]  # what follows was allocated ahead; no copy of a hundred megabytes
    return rows[written]


def _layout(header: bytes) -> np.dtype[np.void] | None:
    """The columns that a header names, or None."""
    try:
        described = orjson.loads(header.split(b"\n")[0].rstrip(b"\x01 "))
        layout = np.dtype([(str(name), str(kind)) for name, kind in described["columns"]])
        return layout if layout.itemsize == described["row_bytes"] and not layout.hasobject else None
    except (ValueError, KeyError, TypeError):
        return None


def _lines(path: Path, problems: list[str]) -> Iterator[Json]:
    """The JSON objects of a file, a line each; broken lines are counted and left out."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        problems.append(f"{path.name} cannot be read: {error.strerror}")
        return
    broken = 0
    for line in data.split(b"\n"):
        if not line.strip(b" \r\0"):
            continue
        try:
            entry = orjson.loads(line)
        except ValueError:
            broken += 1
            continue
        if isinstance(entry, dict):
            yield entry
        else:
            broken += 1
    if broken:
        problems.append(f"{path.name}: {broken} broken line{'s' if broken > 1 else ''} left out")


def _read_stacks(path: Path, problems: list[str]) -> tuple[str | None, tuple[Stack, ...]]:
    """Folded stacks added up by stack, and the sampler that took them."""
    source = None
    counts: dict[tuple[str, ...], int] = {}
    try:
        with open(path, encoding="utf-8", errors="backslashreplace") as file:
            for number, line in enumerate(file):
                if number >= MAX_STACK_LINES:
                    problems.append(
                        f"{path.name} is longer than {MAX_STACK_LINES} lines: the rest was left out"
                    )
                    break
                if line.startswith("#"):
                    found = re.search(r"source=(\S+)", line)
                    source = found[1] if found else source
                    continue
                frames, _, count = line.rstrip("\n").rpartition(" ")
                if frames and count.isdigit():
                    key = tuple(frames.split(";"))
                    counts[key] = counts.get(key, 0) + int(count)
    except FileNotFoundError:
        return None, ()
    except OSError as error:
        problems.append(f"{path.name} cannot be read: {error.strerror}")
    return source, tuple(counts.items())
