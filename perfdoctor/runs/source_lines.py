"""Lines of the user's source files as a run found them, for evidence that shows them.

A script is edited as soon as there is advice, and runs are read on other machines. So a run that ends
keeps what its report read of them: the code without its texts, and the lines that the report shows. Of what
was not kept, a file that was written after the first step is another one by now, and has no lines.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from perfdoctor.model.measured import Location
from perfdoctor.model.note import Note
from perfdoctor.redaction import redact
from perfdoctor.runs import directory
from perfdoctor.runs.types import RunRecords

LARGEST_SOURCE_BYTES = 5_000_000  # a longer file is data, whatever its name
MOST_KEPT = 2_000_000  # characters of all files together
SCHEMA = "perfdoctor.sources/1"


class SourceLines:
    """Lines of the user's source files, each file read once; secrets in texts are replaced.

    `kept`: the lines that were kept with the run, None for a file that had changed by then.
    `began_epoch_s`: the time from which on a file that is written is not the one that ran.
    """

    def __init__(
        self, kept: Mapping[str, list[str] | None] | None = None, began_epoch_s: float = math.inf
    ) -> None:
        self._kept = kept or {}
        self._began_epoch_s = began_epoch_s
        self._files: dict[str, list[str] | None] = {}

    @classmethod
    def of(cls, records: RunRecords) -> SourceLines:
        """The lines as they were when a run was recorded."""
        told = (directory.read_json(records.path / directory.SOURCES) or {}).get("files")
        files = told.items() if isinstance(told, dict) else ()
        kept = {name: lines for name, lines in files if lines is None or _are_lines(lines)}
        return cls(kept, _first_step_epoch_s(records))

    def __call__(self, file: str, line: int) -> str | None:
        """Line number `line`, counted from 1, or None where there is none."""
        if file not in self._files:
            self._files[file] = self._kept[file] if file in self._kept else self._read(file)
        lines = self._files[file] or []
        return lines[line - 1] if 0 < line <= len(lines) else None

    def notes(self) -> Iterator[Note]:
        """That files which were asked for are no longer those that ran."""
        changed = sorted(os.path.basename(file) for file, lines in self._files.items() if lines is None)
        if changed:
            yield Note("sources-changed", {"files": changed})

    def keep(self, run: Path, shown: Iterable[Location]) -> None:
        """Leave what was read beside the run, once, as far as there is room; the lines `shown` whole."""
        places = {(at.file, at.line) for at in shown}
        left, files = MOST_KEPT, {}
        for file, lines in self._files.items():
            whole = {number for name, number in places if name == file}
            kept = None if lines is None else _kept(lines, whole)
            room = sum(map(len, kept or ()))
            if room <= left and lines != []:  # which is a file that is not there
                files[file] = kept
                left -= room
        target = run / directory.SOURCES
        if files and not target.exists():
            with suppress(OSError):  # then later reports read the files themselves
                directory.write_json(target, {"schema": SCHEMA, "files": files})

    def _read(self, file: str) -> list[str] | None:
        """The lines of a file as it is; none where there are none, None where it has been written since."""
        try:
            status = os.stat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_SOURCE_BYTES:
                return []
            if status.st_mtime > self._began_epoch_s:
                return None
            text = Path(file).read_text(encoding="utf-8-sig", errors="replace")  # without a mark before it
            return redact.source(text).split("\n")
        except (OSError, ValueError):
            return []


def _kept(lines: list[str], whole: set[int]) -> list[str]:
    """The code of a file, and some of its lines whole; a file that is no Python has only these."""
    from perfdoctor.redaction.bare_code import bare  # here: a report that is shown again needs none of it

    code = bare("\n".join(lines))
    without = [""] * len(lines) if code is None else code.split("\n")
    return [lines[at] if at + 1 in whole else line for at, line in enumerate(without)]


def _are_lines(told: Any) -> bool:
    return isinstance(told, list) and all(isinstance(line, str) for line in told)


def _first_step_epoch_s(records: RunRecords) -> float:
    """When the first step began, in s since the epoch, as a script has been read by then; else inf."""
    began_s, begin_ns = records.run.get("started_epoch_s"), records.run.get("begin_ns")
    if not isinstance(began_s, (int, float)) or not isinstance(begin_ns, (int, float)):
        return math.inf
    rows = [rank.steps for rank in records.ranks.values() if rank.steps is not None and len(rank.steps)]
    own = [float(steps["begin_ns"][0]) - begin_ns for steps in rows]
    return began_s + min(own) / 1e9 if own and min(own) >= 0 else math.inf
