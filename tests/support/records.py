"""Builders of synthetic records: rows as the probe writes them, from a short list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from perfdoctor.model.measured import Marker
from perfdoctor.runs.directory import Json
from perfdoctor.runs.records import Rows, Stack
from perfdoctor.runs.types import RankRecords, RunRecords
from perfdoctor.wire.batch_rows import BATCHES
from perfdoctor.wire.step_rows import FRESH, STEPS

MS = 1_000_000
STEP_LAYOUT = np.dtype(STEPS.described)
LOADER_LAYOUT = np.dtype(BATCHES.described)


def row(marker: Marker, ms: float, **columns: Any) -> Json:
    """One row that lasts `ms`; phases in milliseconds, other columns as they are stored."""
    return {"marker": marker, "ms": ms, **columns}


def update(ms: float = 10.0, optimizer: int = 1, **columns: Any) -> Json:
    """A row that an optimizer step closed."""
    return row(Marker.UPDATE, ms, optimizer=optimizer, **columns)


def backward(ms: float = 10.0, fresh: bool = True, **columns: Any) -> Json:
    """A row that a backward closed."""
    return row(Marker.BACKWARD, ms, flags=FRESH if fresh else 0, **columns)


def rows(described: Iterable[Json], begin_ms: float = 1000.0) -> Rows:
    """Contiguous step rows."""
    described = list(described)
    table = np.zeros(len(described), dtype=STEP_LAYOUT)
    table["loss"], table["marks"] = np.nan, 1
    at_ns = round(begin_ms * MS)
    phases = STEP_LAYOUT.names[STEP_LAYOUT.names.index("data_wait") :]
    for index, entry in enumerate(described):
        table["begin_ns"][index] = at_ns
        at_ns += round(entry["ms"] * MS)
        table["end_ns"][index] = at_ns
        for name, value in entry.items():
            if name != "ms":
                table[name][index] = round(value * MS) if name in phases else value
    return table


def fetches(
    count: int,
    read_ms: float,
    cpu_ms: float | None = None,
    loader: int = 1,
    worker: int = -1,
    begin_ms: float = 1000.0,
    every_ms: float = 10.0,
) -> Rows:
    """Loader rows, one batch each."""
    table = np.zeros(count, dtype=LOADER_LAYOUT)
    table["begin_ns"] = ((begin_ms + np.arange(count) * every_ms) * MS).astype(np.int64)
    table["end_ns"] = table["begin_ns"] + round(read_ms * MS)
    table["worker"], table["loader"], table["batches"], table["samples"] = worker, loader, 1, 32
    table["read_ns"] = round(read_ms * MS)
    table["read_cpu_ns"] = round((read_ms if cpu_ms is None else cpu_ms) * MS)
    return table


def records(
    steps: Rows | None = None,
    loader: Rows | None = None,
    events: Iterable[Json] = (),
    stacks: Iterable[Stack] = (),
    host: Iterable[Json] = (),
    boots: Iterable[Json] = (
        {"event": "boot", "pid": 1, "begin_ns": 500 * MS, "threads": 2, "device": "cpu"},
    ),
    run: Mapping[str, Any] | None = None,
    gpus: Mapping[int, tuple[Json, ...]] | None = None,
) -> RunRecords:
    """A run of one rank."""
    own = RankRecords(0, steps, loader, tuple(events), tuple(stacks), "py-spy")
    header = {
        "id": "run",
        "command": ["train.py"],
        "begin_ns": 400 * MS,
        "end_ns": 10**12,
        "exit_code": 0,
        "outcome": "ok",
    }
    header["host"] = {"usable_cores": 4, "cores": 4, "limited_by": "machine"}
    return RunRecords(Path("run"), {**header, **(run or {})}, {0: own}, tuple(boots), tuple(host), gpus or {})


def no_source(file: str, line: int) -> str | None:
    """A machine on which the script is no longer there."""
    return None


def source_of(**texts: str) -> Any:
    """The lines of named files: `source_of(train=...)` is train.py."""
    files = {f"/home/me/{name}.py": text.split("\n") for name, text in texts.items()}

    def line_of(file: str, line: int) -> str | None:
        lines = files.get(file, [])
        return lines[line - 1] if 0 < line <= len(lines) else None

    return line_of
