"""`perfdoctor bug`: what a bug report needs, in one file to look at and to send."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from perfdoctor.model.own_failure import OwnFailure


def bug(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="The run that it is about: its id or folder (default: none)."),
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="The folder of the runs.")] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The zip to write (default: perfdoctor-bug-TIME.zip here)."),
    ] = None,
) -> None:
    """Collect what a bug report about perfdoctor needs in a zip file; nothing is sent.

    It holds versions, the last failure of perfdoctor itself, and what RUN recorded but for stacks and traces.
    Secrets, your home and the host's name are replaced.
    """
    import time

    from perfdoctor.cli import output
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.render.text import count, size
    from perfdoctor.runs import bug_bundle, lookup

    path = lookup.run_directories([run], out)[0] if run is not None else None
    failures = _judged(path) if path is not None else []
    file = Path(to or f"perfdoctor-bug-{time.strftime('%Y%m%d-%H%M%S')}.zip")
    try:
        names = bug_bundle.write(file, path, failures)
    except OSError as error:
        hint = "name another place: perfdoctor bug --to FILE"
        raise PerfdoctorError(f"{file} cannot be written: {error.strerror}", hint) from None
    for failure in failures:
        output.say(f"perfdoctor itself failed at {failure.feature}: {failure.error}")
    output.emit(f"{file}\n", sys.stdout)
    output.say(
        f"wrote {count(len(names), 'file')}, {size(file.stat().st_size)}",
        f"look at it before you send it: unzip -p {shlex.quote(str(file))} | less",
    )


def tell(failure: OwnFailure, words: Sequence[str], run: Path | None = None) -> None:
    """Say that perfdoctor itself failed, and keep what a bug report needs of it."""
    from contextlib import suppress

    from perfdoctor.cli import output
    from perfdoctor.runs import bug_bundle

    with suppress(OSError, RuntimeError):  # no room, or no home
        bug_bundle.keep(words, failure)
    shown = f" {shlex.quote(str(run))}" if run is not None else ""
    output.say(f"this is a defect of perfdoctor: {failure.error}", f"to report it: perfdoctor bug{shown}")


def _judged(path: Path) -> list[OwnFailure]:
    """What fails while the run is judged."""
    from perfdoctor import reporting
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.own_failures import contained

    found: list[OwnFailure] = []
    try:
        with contained("the report", found):
            found += reporting.judge(path).failures
    except PerfdoctorError:  # it holds nothing to judge: that is told by its files
        pass
    return found
