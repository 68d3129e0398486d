"""Which collectives ranks were in when a signal ended their command.

A launcher ends its ranks in some order: those left behind leave their collective before they end themselves,
and no longer tell that it is where they stood.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from perfdoctor.runs.directory import Json, read_json, write_json
from perfdoctor.runs.json_text import whole
from perfdoctor.runs.raw import Rows, read_now
from perfdoctor.wire import names
from perfdoctor.wire.step_rows import END

FILE = "interrupted.json"


def keep(path: Path) -> None:
    """Write down where the ranks of the run at `path` are now; on a full disk, nothing."""
    with suppress(OSError):
        files = path.glob(names.rows_file("collectives", "*"))
        inside = {file.name: now for file in files if (now := read_now(file)) is not None}
        write_json(path / FILE, {"t_ns": time.perf_counter_ns(), "inside": inside})


def position(collectives: Path, steps: Rows | None) -> Json | None:
    """The collective that the rank with this file was in at that time, if no step of it ended any more."""
    kept = read_json(collectives.parent / FILE) or {}
    at_ns, inside = whole(kept, "t_ns"), kept.get("inside")
    now = inside.get(collectives.name) if isinstance(inside, dict) else None
    if at_ns is None or not isinstance(now, dict):
        return None
    if steps is not None and np.any(steps["end_ns"][steps["marker"] != END] > at_ns):
        return None
    return now
