"""`perfdoctor report`: the report of a saved run, or of a saved trial."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from perfdoctor.trial import Trial


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="A run's id or folder, the newest without it; or the folders of a job's nodes.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Where the runs are kept.")] = None,
    trials: Annotated[
        bool, typer.Option("--trials", help="Of what perfdoctor try measured: the newest trial, or RUN.")
    ] = False,
) -> None:
    """Show the report of a saved run, or of a trial.

    Runs of one job that lie side by side are joined; those of nodes without a shared folder are named.
    """
    names = runs or []
    if trials:
        _trial(names, json, out)
        return
    from perfdoctor.cli import output, saved

    first, *others = saved.meant(names, out)
    found = saved.judge(first, others=others)
    if json:
        from perfdoctor.render import json as public

        output.emit(public.dumps(found).decode(), sys.stdout)
        return
    from perfdoctor.render import terminal

    page = terminal.page(found, output.columns(sys.stdout), output.wants_colour(sys.stdout))
    output.emit(page, sys.stdout)


def _trial(names: list[str], json: bool, out: str | None) -> None:
    """The page of a trial, with the trials before it; or its document."""
    from perfdoctor.cli import output
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.render import trialjson, trialpage

    if len(names) > 1:
        raise PerfdoctorError("one trial at a time is shown", f"perfdoctor report --trials {names[0]}")
    name = next(iter(names), None)
    folders = _folders(out)
    found = trialjson.read(_meant(name, folders, out))
    if json:
        output.emit(trialjson.dumps(found).decode(), sys.stdout)
        return
    width, colour = output.columns(sys.stdout), output.wants_colour(sys.stdout)
    page = trialpage.page(found, width, colour, os.getcwd())
    if name is None:
        page += trialpage.listing(_readable(folders[1:]), width)
    output.emit(page, sys.stdout)


def _folders(out: str | None) -> list[Path]:
    """The folders of saved trials, newest first: their names begin with the time."""
    from perfdoctor import rundir
    from perfdoctor.render import trialjson

    kept = [path for place in rundir.places(out, "trials") for path in place.glob(f"*/{trialjson.FILE}")]
    return sorted((path.parent for path in kept), key=lambda path: path.name, reverse=True)


def _meant(name: str | None, folders: list[Path], out: str | None) -> Path:
    """The trial that the user means: a folder, an id, or (None) the newest."""
    from perfdoctor.errors import PerfdoctorError

    if name is None and folders:
        return folders[0]
    if name is None:
        raise PerfdoctorError("there are no trials", "measure a change: perfdoctor try --list")
    for path in (Path(name), *(folder for folder in folders if folder.name == name)):
        if path.is_dir():
            return path
    hint = "list them with: perfdoctor report --trials" + (f" --out {out}" if out else "")
    raise PerfdoctorError(f"there is no trial called {name}", hint)


def _readable(folders: list[Path]) -> Iterator[Trial]:
    """Trials that can still be read; the others are left out."""
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.render import trialjson

    for folder in folders:
        with suppress(PerfdoctorError):
            yield trialjson.read(folder)
