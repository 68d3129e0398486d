"""Where the HTML report is written: a whole file, or none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from perfdoctor.render.page import Page
    from perfdoctor.reporting import Illustrated

INSIDE = 10  # rows of each list of what a window of the profiler saw

# Of a command that does something and prints what came out.
HtmlToo = Annotated[str | None, typer.Option(metavar="FILE", help="Write it as an HTML file, too.")]
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


def asked(file: str | None) -> Path | None:
    """The file that is meant, if one is; raises like `checked`."""
    return None if file is None else checked(file)


def show(path: Path) -> None:
    """Open the file in the user's browser."""
    import webbrowser

    webbrowser.open(path.as_uri())


def write_report(path: Path, judged: Illustrated, out: str | None) -> None:
    """Write a report, with trials and the loader's curve of its command. Raises like `write_page`."""
    from perfdoctor.cli import kept_curves, kept_trials, retry
    from perfdoctor.render.html import report as document
    from perfdoctor.render.pages import trace

    window = trace.inside(judged.window, INSIDE) if judged.window is not None else ()
    trials = list(kept_trials.of_command(judged.report, out))
    curve = kept_curves.of_command(judged.report, out)
    again = retry.option(judged.report.path, later=True)
    _write(path, document.html(judged.report, judged.timeline, judged.excerpts, trials, window, curve, again))


def write_page(path: Path, page: Page) -> None:
    """Write what a terminal shows. Raises PerfdoctorError where there is no room for it."""
    from perfdoctor.render.html import blocks

    _write(path, blocks.file(page))


def _write(path: Path, content: str) -> None:
    """Write all of it or nothing, and say where."""
    from perfdoctor.cli import output
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.render import text
    from perfdoctor.runs import directory

    try:
        directory.write_bytes(path, content.encode())
    except OSError as error:
        raise PerfdoctorError(f"{path} cannot be written: {error.strerror}", ELSEWHERE) from None
    output.say(f"the report is in {text.path(str(path), directory.working_folder())}")
