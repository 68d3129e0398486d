"""Lines of the user's source files as a run found them, for evidence that shows them.

When a run ends, what its report read of them is kept beside it: a script is edited as soon as there is
advice, and runs are read on other machines. Of what was not kept, a file that was written after the run began
to record is another one by now, and has no lines.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from perfdoctor.model import redact
from perfdoctor.model.note import Note
from perfdoctor.runs import directory
from perfdoctor.runs.types import RunRecords

LARGEST_SOURCE_BYTES = 5_000_000  # a longer file is data, whatever its name
KEPT = "sources.json"
MOST_KEPT = 2_000_000  # characters of all files together
SCHEMA = "perfdoctor.sources/1"


class SourceLines:
    """Lines of the user's source files, each file read once; secrets in literals are replaced.

    `kept`: the texts that were kept with the run, None for a file that had changed by then.
    `began_epoch_s`: the time from which on a file that is written is not the one that ran.
    """

    def __init__(self, kept: Mapping[str, str | None] | None = None, began_epoch_s: float = math.inf) -> None:
        self._kept = kept or {}
        self._began_epoch_s = began_epoch_s
        self._texts: dict[str, str | None] = {}
        self._files: dict[str, list[str]] = {}

    @classmethod
    def of(cls, records: RunRecords) -> SourceLines:
        """The lines as they were when a run was recorded."""
        told = (directory.read_json(records.path / KEPT) or {}).get("files")
        files = told.items() if isinstance(told, dict) else ()
        kept = {name: text for name, text in files if text is None or isinstance(text, str)}
        opened_s = [rank.opened_epoch_s for rank in records.ranks.values() if rank.opened_epoch_s > 0]
        return cls(kept, max(opened_s, default=math.inf))

    def __call__(self, file: str, line: int) -> str | None:
        """Line number `line`, counted from 1, or None where there is none."""
        if file not in self._files:
            self._files[file] = self._lines(file)
        lines = self._files[file]
        return lines[line - 1] if 0 < line <= len(lines) else None

    def notes(self) -> Iterator[Note]:
        """That files which were asked for are no longer those that ran."""
        changed = sorted(os.path.basename(file) for file, text in self._texts.items() if text is None)
        if changed:
            yield Note("sources-changed", {"files": changed})

    def keep(self, run: Path) -> None:
        """Leave what was read beside the run, once, as far as there is room."""
        left, files = MOST_KEPT, {}
        for file, text in self._texts.items():
            left -= len(text or "")
            if left >= 0:
                files[file] = text
        if files and not (run / KEPT).exists():
            with suppress(OSError):  # then later reports read the files themselves
                directory.write_json(run / KEPT, {"schema": SCHEMA, "files": files})

    def _lines(self, file: str) -> list[str]:
        try:
            text = self._kept[file] if file in self._kept else self._read(file)
        except (OSError, ValueError):
            return []
        self._texts[file] = text
        return [] if text is None else text.split("\n")

    def _read(self, file: str) -> str | None:
        """The text of a file; None where it has been written since the run began. Raises OSError."""
        status = os.stat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_SOURCE_BYTES:
            raise ValueError(file)
        if status.st_mtime > self._began_epoch_s:
            return None
        return redact.source(Path(file).read_text(encoding="utf-8", errors="replace"))
