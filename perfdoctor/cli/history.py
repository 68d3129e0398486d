"""`perfdoctor history`: what was predicted on this machine, beside what trials measured."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from perfdoctor.cli import together


def history(
    limit: Annotated[
        int, typer.Option(min=0, metavar="N", help="Show the N newest trials; --json has all.")
    ] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print the history as JSON.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Remove the history of this machine.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --clear: do not ask.")] = False,
) -> None:
    """Show how well gains were predicted on this machine, as its trials measured them.

    After ten trials of changes to one class of time, later runs base their ranges for it on this machine's
    trials.
    """
    from perfdoctor.cli import output
    from perfdoctor.diagnosis import history as conclusions
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.watch.machine import history as kept

    if yes and not clear:
        raise PerfdoctorError("--yes goes with --clear", "perfdoctor history --clear --yes")
    together.refuse("--clear", clear, {"--json": json})
    try:
        path = kept.file()
        changes, unread = kept.read()
    except OSError as error:
        raise PerfdoctorError(f"the history cannot be read: {error.strerror}", _elsewhere()) from None
    if path is None:
        raise PerfdoctorError(
            f"no history is kept: {kept.VARIABLE} is {kept.OFF}", f"unset it: unset {kept.VARIABLE}"
        )
    if clear:
        _clear(path, len(changes) + unread, yes)
        return
    found = conclusions.history(str(path), changes, unread)
    if json:
        from perfdoctor.render.documents import history as document

        output.emit(document.dumps(found).decode(), sys.stdout)
        return
    if not (changes or unread):
        raise PerfdoctorError(
            "no predicted change was tried on this machine yet",
            "try what a run advises: perfdoctor try --auto",
        )
    from perfdoctor.render.pages import history as page

    output.show(page.page(found, limit), sys.stdout)


def _elsewhere() -> str:
    from perfdoctor.watch.machine.history import VARIABLE

    return f"name another folder in {VARIABLE}"


def _clear(path: Path, lines: int, yes: bool) -> None:
    """Remove the history, if that is what the user wants."""
    from perfdoctor.cli import output
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.render.text import count, escape_control
    from perfdoctor.watch.machine import history as kept

    what = f"{count(lines, 'trial')} in {escape_control(str(path))}"
    if not path.exists():
        output.say(f"there is no history: {path} does not exist")
        return
    if not yes:
        typer.confirm(f"Remove {what}?", abort=True, err=True)
    try:
        kept.clear()
    except OSError as error:
        raise PerfdoctorError(
            f"{path} cannot be removed: {error.strerror}", f"remove it: rm {shlex.quote(str(path))}"
        ) from None
    output.say(f"removed {what}")
