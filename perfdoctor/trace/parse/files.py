"""Finds the traces in a folder."""

from __future__ import annotations

from pathlib import Path

from perfdoctor.errors import NotATrace
from perfdoctor.trace.parse.source import BLOCK_BYTES, GZIP_RATIO, TraceSource

ENDINGS = (".json", ".json.gz")
IN_TRACES = (b'"traceEvents"', b'"schemaVersion"', b'"ph"')  # in the first block of one


def of_folder(folder: Path) -> list[Path]:
    """The traces of a folder, by name, without other JSON. Raises NotATrace where there are none."""
    files = _candidates(folder)
    traces = [entry for entry in files if _may_be_trace(entry)] or files
    named = [entry for entry in traces if "trace" in entry.name.lower()]
    if not files:
        raise NotATrace(f"{folder} holds no trace", "traces end in .json or .json.gz; give one by its name")
    return named or traces


def any_in(folder: Path) -> bool:
    """Whether a folder holds a file that begins like a trace."""
    return any(_may_be_trace(entry) for entry in _candidates(folder))


def _candidates(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_file() and entry.name.endswith(ENDINGS))


def _may_be_trace(path: Path) -> bool:
    """Whether a file begins like a trace. One that cannot be read does: reading it says what is wrong."""
    try:
        begin = next(iter(TraceSource(path, BLOCK_BYTES * GZIP_RATIO)), b"")
    except NotATrace:
        return True
    return any(word in begin for word in IN_TRACES)
