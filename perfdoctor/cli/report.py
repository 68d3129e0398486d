"""`perfdoctor report`: the report of a saved run, or of a saved trial."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from perfdoctor.model.concluded import Gain
    from perfdoctor.model.report import Report
    from perfdoctor.model.trial import Trial


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="A run's id or folder (default: the newest run), or the folders of a job's nodes.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print it as Markdown, for an issue or a pull request.")
    ] = False,
    all_: Annotated[bool, typer.Option("--all", help="Name the tips that could not be judged, too.")] = False,
    lines: Annotated[
        int, typer.Option(min=0, metavar="N", help="Show the N costliest lines; --json has all.")
    ] = 5,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="The folder of the runs.")] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write it as one HTML file, which opens offline.")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="With --html: show the file in a browser.")] = False,
    price: Annotated[
        str | None,
        typer.Option(metavar="PER_HOUR", help="Say what it cost, at this price of the machine: 3.20/h."),
    ] = None,
    trials: Annotated[
        bool, typer.Option("--trials", help="Show the newest trial of perfdoctor try, or the trial RUN.")
    ] = False,
) -> None:
    """Show the report of a saved run, or of a trial.

    Runs of one job in the same folder are joined; give those of nodes without a shared folder by name.
    """
    names = runs or []
    price_per_h = None if price is None else _price_per_h(price)
    if html is not None or open_:
        apart = {"--json": json, "--markdown": markdown, "--trials": trials, "--price": price is not None}
        _html(names, html, open_, out, apart)
        return
    if trials:
        _trial(names, json, markdown, out)
        return
    from perfdoctor.cli import kept_report, output
    from perfdoctor.runs import lookup

    first, *others = lookup.run_directories(names, out)
    found = kept_report.judge(first, others or None)
    if json:
        from perfdoctor.render.documents import report as public

        output.emit(public.dumps(found).decode(), sys.stdout)
        return
    from perfdoctor.render.pages import report as report_page

    page = report_page.page(found, all_, lines, ready(found, out), price_per_h)
    output.show(page, sys.stdout, markdown)


def _price_per_h(typed: str) -> float:
    """The price that was typed: `3.20` or `3.20/h`."""
    from perfdoctor.errors import PerfdoctorError

    try:
        price = float(typed.removesuffix("/h"))
    except ValueError:
        price = -1.0
    if not 0 <= price < math.inf:
        raise PerfdoctorError(f"--price {typed} is no price of an hour", "write it like this: --price 3.20/h")
    return price


def _html(names: list[str], file: str | None, show: bool, out: str | None, others: dict[str, bool]) -> None:
    """The report as an HTML file."""
    from perfdoctor.errors import PerfdoctorError

    if file is None:
        raise PerfdoctorError(
            "--open shows what --html writes", "give both: perfdoctor report --html FILE --open"
        )
    if other := next((name for name, given in others.items() if given), None):
        raise PerfdoctorError(f"--html and {other} do not go together", f"leave out {other}")
    from perfdoctor.cli import html_file, kept_report, output
    from perfdoctor.runs import lookup

    path = html_file.checked(file)
    first, *parts = lookup.run_directories(names, out)
    html_file.write(path, *kept_report.judge_over_time(first, parts or None))
    output.say(f"the report is in {file}")
    if show:
        import webbrowser

        webbrowser.open(path.as_uri())


def ready(report: Report, out: str | None) -> Gain | None:
    """What the newest trial of the run's command measured on batches that are kept in memory."""
    folders = _folders(out)
    if not folders:
        return None
    from perfdoctor.model import redact

    command = redact.command(report.run.command[1:])
    for trial in _readable(folders, []):
        if trial.cwd == report.run.cwd and redact.command(trial.command[1:]) == command:
            for found in trial.verdicts:
                if _measures_data(found.variant.words) and found.speedup is not None:
                    return found.speedup
    return None


def _measures_data(words: tuple[str, ...]) -> bool:
    """Whether a trial's words are the one tweak that measures what waiting for data costs."""
    from perfdoctor.trials.settings import tweak_catalogue

    return any(
        words == (tweak.flag,) and tweak_catalogue.declared(tweak.id).measures == "data"
        for tweak in tweak_catalogue.tweaks()
    )


def _trial(names: list[str], json: bool, markdown: bool, out: str | None) -> None:
    """The page of a trial, with the trials before it; or its document."""
    from perfdoctor.cli import output
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.render.documents import trial as document
    from perfdoctor.render.pages import trial
    from perfdoctor.trials import trial_file

    if len(names) > 1:
        raise PerfdoctorError(
            "only one trial can be shown at a time", f"perfdoctor report --trials {names[0]}"
        )
    unread: list[Path] = []
    folders = _folders(out)
    trials = [trial_file.read(_meant(names[0], folders, out))] if names else [*_readable(folders, unread)]
    if not trials:
        damaged = f"no readable trial in {unread[0].parent}" if unread else "no trials yet"
        raise PerfdoctorError(damaged, "measure a change: perfdoctor try --list")
    found, *earlier = trials
    if json:
        output.emit(document.dumps(found).decode(), sys.stdout)
        return
    output.show(trial.page(found, os.getcwd(), earlier, len(unread)), sys.stdout, markdown)


def _folders(out: str | None) -> list[Path]:
    """The folders of saved trials, newest first: their names begin with the time."""
    from perfdoctor.runs import directory
    from perfdoctor.trials import trial_file

    kept = [path for place in directory.places(out, "trials") for path in place.glob(f"*/{trial_file.FILE}")]
    return sorted((path.parent for path in kept), key=lambda path: path.name, reverse=True)


def _meant(name: str, folders: list[Path], out: str | None) -> Path:
    """The trial that the user means: a folder, or an id."""
    from perfdoctor.errors import PerfdoctorError

    for path in (Path(name), *(folder for folder in folders if folder.name == name)):
        if path.is_dir():
            return path
    hint = "list them with: perfdoctor report --trials" + (f" --out {out}" if out else "")
    raise PerfdoctorError(f"no trial called {name}", hint)


def _readable(folders: list[Path], unread: list[Path]) -> Iterator[Trial]:
    """Trials that can still be read; the folders of the others are left out, and added to `unread`."""
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.trials import trial_file

    for folder in folders:
        try:
            yield trial_file.read(folder)
        except PerfdoctorError:
            unread.append(folder)
