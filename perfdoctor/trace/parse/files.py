"""Finds the traces in a folder."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from perfdoctor.errors import NotATrace
from perfdoctor.trace.parse.source import BLOCK_BYTES, GZIP_RATIO, TraceSource

ENDINGS = (".json", ".json.gz")
IN_TRACES = (b'"traceEvents"', b'"schemaVersion"', b'"ph"')  # in the first block of one

# As torch's own handler names each recording of a worker: `host_pid.1796126176259.pt.trace.json`.
STAMPED = re.compile(r"(?P<worker>.+)\.(?P<stamp>\d{10,})\.pt\.trace\.json(\.gz)?")
RANK = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*"rank"\s*:\s*(\d+)')


def of_folder(folder: Path) -> list[Path]:
    """The traces of a folder, by name, without other JSON. Raises NotATrace where there are none."""
    files = _candidates(folder)
    traces = [entry for entry in files if _may_be_trace(entry)] or files
    named = [entry for entry in traces if "trace" in entry.name.lower()]
    if not files:
        raise NotATrace(f"{folder} holds no trace", "traces end in .json or .json.gz; give one by its name")
    return named or traces


def latest(traces: list[Path]) -> list[Path]:
    """Of several recordings of one worker, as the cycles of a profiler leave them, the latest alone: they are
    no ranks of one job. Ranks that share a worker's name tell theirs within.
    """
    by_worker: dict[str, list[tuple[int, Path]]] = defaultdict(list)
    for path in traces:
        if stamped := STAMPED.fullmatch(path.name):
            by_worker[stamped["worker"]].append((int(stamped["stamp"]), path))
    older = set()
    for recordings in by_worker.values():
        newest: dict[bytes | None, Path] = {}
        for _, path in sorted(recordings) if len(recordings) > 1 else ():
            rank = _rank(path)
            if rank in newest:
                older.add(newest[rank])
            newest[rank] = path
    return [path for path in traces if path not in older]


def any_in(folder: Path) -> bool:
    """Whether a folder holds a file that begins like a trace."""
    return any(_may_be_trace(entry) for entry in _candidates(folder))


def _candidates(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_file() and entry.name.endswith(ENDINGS))


def _may_be_trace(path: Path) -> bool:
    """Whether a file begins like a trace. One that cannot be read does: reading it says what is wrong."""
    try:
        begin = _beginning(path)
    except NotATrace:
        return True
    return any(word in begin for word in IN_TRACES)


def _rank(path: Path) -> bytes | None:
    """The rank that a file says it is of, where it says so before its events."""
    try:
        told = RANK.search(_beginning(path))
    except NotATrace:
        return None
    return told[1] if told else None


def _beginning(path: Path) -> bytes:
    """The first block of a file. Raises NotATrace where it cannot be read."""
    return next(iter(TraceSource(path, BLOCK_BYTES * GZIP_RATIO)), b"")
