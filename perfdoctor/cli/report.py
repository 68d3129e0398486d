"""`perfdoctor report`: the report of a saved run, or of a saved trial."""

from __future__ import annotations

import math
import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from perfdoctor.cli import together
from perfdoctor.model.shown import LINES

if TYPE_CHECKING:
    from perfdoctor.model.report import Report
    from perfdoctor.model.trial import Trial
    from perfdoctor.render.page import Page


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
    ] = LINES,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="The folder of the runs.")] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write it as one HTML file, which opens offline.")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="With --html: show the file in a browser.")] = False,
    price: Annotated[
        str | None,
        typer.Option(metavar="PER_HOUR", help="Say what it cost, at this price of the machine: 3.20/h."),
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="RUN", help="With --html: compare it with that earlier run.")
    ] = None,
    trials: Annotated[
        bool, typer.Option("--trials", help="Show the newest trial of perfdoctor try, or the trial RUN.")
    ] = False,
) -> None:
    """Show the report of a saved run, or of a trial.

    Runs of one job in the same folder are joined; give those of nodes without a shared folder by name.
    """
    names, price_per_h = runs or [], None if price is None else _price_per_h(price)
    of_page = {"--markdown": markdown, "--price": price is not None}
    of_terminal = {"--all": all_, "--lines": lines != LINES}
    if html is not None or open_ or against is not None:
        _html(names, html, open_, out, trials, against, {"--json": json, **of_page, **of_terminal})
        return
    together.refuse("--json", json, of_page)
    if trials:
        together.refuse("--trials", trials, {"--price": price is not None, **of_terminal})
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
    output.show(_page(found, out, all_, lines, price_per_h), sys.stdout, markdown)


def _page(found: Report, out: str | None, all_: bool, lines: int, price_per_h: float | None) -> Page:
    """The page of a run, with what trials of its command measured and how to try it again."""
    from perfdoctor.cli import kept_trials, retry
    from perfdoctor.render.pages import report as page
    from perfdoctor.runs import directory

    ready, again = kept_trials.ready(found, out), retry.option(found.path)
    return page.page(found, all_, lines, ready, price_per_h, again, directory.working_folder())


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


def _html(
    names: list[str],
    file: str | None,
    show: bool,
    out: str | None,
    trials: bool,
    against: str | None,
    others: dict[str, bool],
) -> None:
    """The report, or the trial, as an HTML file."""
    from perfdoctor.errors import PerfdoctorError

    if file is None:
        wanted = "--open" if show else f"--against {against}"
        raise PerfdoctorError(
            f"{wanted.split()[0]} shows what --html writes",
            f"give both: perfdoctor report --html FILE {wanted}",
        )
    together.refuse("--html", True, others)
    if trials and against is not None:
        raise PerfdoctorError("--against compares runs, and --trials shows trials", "leave out one of them")
    from perfdoctor.cli import html_file, kept_report
    from perfdoctor.runs import directory, lookup

    path = html_file.checked(file)
    if trials:
        from perfdoctor.render.pages import trial

        found, earlier, unread = _trials(names, out)
        html_file.write_page(path, trial.page(found, directory.working_folder(), earlier, unread, out))
    else:
        first, *parts = lookup.run_directories(names, out)
        before = None if against is None else lookup.run_directory(against, out)
        html_file.write_report(path, kept_report.judge_over_time(first, parts or None, against=before), out)
    if show:
        html_file.show(path)


def _trial(names: list[str], json: bool, markdown: bool, out: str | None) -> None:
    """The page of a trial, with the trials before it; or its document."""
    from perfdoctor.cli import output
    from perfdoctor.runs import directory

    found, earlier, unread = _trials(names, out)
    if json:
        from perfdoctor.render.documents import trial as document

        output.emit(document.dumps(found).decode(), sys.stdout)
        return
    from perfdoctor.render.pages import trial

    output.show(trial.page(found, directory.working_folder(), earlier, unread, out), sys.stdout, markdown)


def _trials(names: list[str], out: str | None) -> tuple[Trial, list[Trial], int]:
    """The trial that is meant, those before it, and how many cannot be read."""
    from perfdoctor.cli import kept_trials
    from perfdoctor.errors import PerfdoctorError

    if len(names) > 1:
        raise PerfdoctorError(
            "only one trial can be shown at a time", f"perfdoctor report --trials {shlex.quote(names[0])}"
        )
    return kept_trials.named_or_newest(names[0] if names else None, out)
