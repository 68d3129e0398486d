"""Lines of the user's source files, for evidence that shows them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from perfdoctor.model import redact

LARGEST_SOURCE_BYTES = 5_000_000  # a longer file is data, whatever its name


class SourceLines:
    """Lines of the user's source files, each file read once; secrets in literals are replaced."""

    def __init__(self) -> None:
        self._files: dict[str, list[str]] = {}

    def __call__(self, file: str, line: int) -> str | None:
        """Line number `line`, counted from 1, or None where there is none."""
        if file not in self._files:
            self._files[file] = _lines(file)
        lines = self._files[file]
        return lines[line - 1] if 0 < line <= len(lines) else None


def _lines(file: str) -> list[str]:
    try:
        status = os.stat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_SOURCE_BYTES:
            return []
        text = Path(file).read_text(encoding="utf-8", errors="replace")
        return redact.source(text).split("\n")
    except (OSError, ValueError):
        return []
