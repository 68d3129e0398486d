"""Where the HTML report is written: a whole file, or none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfdoctor.model.report import Report
    from perfdoctor.model.timeline import Timeline
    from perfdoctor.reporting import Excerpts

ELSEWHERE = "name a file in a folder that you may write to: --html report.html"


def checked(file: str, elsewhere: str = ELSEWHERE) -> Path:
    """The file that is meant, links followed. Raises PerfdoctorError where none can be written there.

    Nothing is made yet: a run is not to end before it is known that its report has no place.
    """
    from perfdoctor.errors import PerfdoctorError

    path = Path(os.path.realpath(file))
    if path.exists() and not path.is_file():
        raise PerfdoctorError(f"{file} is not a file: nothing can be written there", elsewhere)
    if not path.parent.is_dir():
        raise PerfdoctorError(f"{file} cannot be written: there is no folder {path.parent}", elsewhere)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise PerfdoctorError(f"{file} cannot be written: its folder may not be written to", elsewhere)
    return path


def write(path: Path, report: Report, timeline: Timeline, excerpts: Excerpts) -> None:
    """Write the report, all of it or nothing. Raises PerfdoctorError where there is no room for it."""
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.render.html import report as document
    from perfdoctor.runs import directory

    try:
        directory.write_bytes(path, document.html(report, timeline, excerpts).encode())
    except OSError as error:
        raise PerfdoctorError(f"{path} cannot be written: {error.strerror}", ELSEWHERE) from None
