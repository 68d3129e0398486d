"""The windows of torch.profiler that a run recorded, read and measured."""

from __future__ import annotations

from pathlib import Path

from perfdoctor.errors import PerfdoctorError
from perfdoctor.recorded import RunRecords
from perfdoctor.trace import files
from perfdoctor.trace.results import RankTrace


def measured(path: Path, records: RunRecords) -> tuple[dict[str, RankTrace], list[str]]:
    """The measured windows of the lowest rank, by kind, and what could not be read."""
    found: dict[str, RankTrace] = {}
    notes = []
    for kind, file in files.windows_of(path, records.ranks).items():
        from perfdoctor.trace.measure import measure  # here: many runs have no window
        from perfdoctor.trace.read import read

        try:
            found[kind] = measure(read(file))
        except PerfdoctorError as error:
            notes.append(f"a window of torch.profiler could not be read: {error}")
            continue
        if found[kind].times is None:
            break  # on the CPU, further windows tell the report nothing
    return found, notes
