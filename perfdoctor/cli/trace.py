"""`perfdoctor trace`: what a torch.profiler trace says."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfdoctor.cli import together

if TYPE_CHECKING:
    from perfdoctor.render.page import Page
    from perfdoctor.trace.perfetto import TrackEvent
    from perfdoctor.trace.results import RankTrace

GB = 10**9
LIMIT_GB = 4.0
ELSEWHERE = "give another place with --perfetto OUT"
IN_HTML = 20  # rows per list without --top: a file that is scrolled has room
WHICH_WINDOW = "Which profiler window of a run (default: the latest without shapes or stacks)."


def trace(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Traces, a folder with one for each rank, or a run (default: the newest run).",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything measured, as JSON.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print it as Markdown, for an issue or a pull request.")
    ] = False,
    all_: Annotated[bool, typer.Option("--all", help="Name the tips that could not be judged, too.")] = False,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="Show what grew and what shrank from A to B.", show_default=False),
    ] = None,
    perfetto: Annotated[
        str | None,
        typer.Option(metavar="OUT", help="Write the trace with perfdoctor's tracks added."),
    ] = None,
    top: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Rows per list.", show_default=False)
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help=WHICH_WINDOW),
    ] = None,
    limit_gb: Annotated[
        float, typer.Option(metavar="GB", min=0, help="Refuse files with more JSON than this.")
    ] = LIMIT_GB,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write it as one HTML file, which opens offline.")
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="The folder of the runs.")] = None,
) -> None:
    """Show where the time goes in a torch.profiler trace, and what to change."""
    from perfdoctor.cli import html_file
    from perfdoctor.errors import PerfdoctorError

    if compare is not None and (paths or perfetto):
        raise PerfdoctorError("--compare takes exactly two traces", "perfdoctor trace --compare A B")
    printed = {"--json": json, "--markdown": markdown}
    together.refuse("--html", html is not None, printed | {"--perfetto": perfetto is not None})
    together.refuse("--perfetto", perfetto is not None, printed)
    together.refuse("--json", json, {"--markdown": markdown})
    together.refuse("--compare", compare is not None, {"--all": all_})
    file = html_file.asked(html)
    limit_bytes = sys.maxsize if limit_gb == math.inf else round(limit_gb * GB)
    words = [paths or []] if compare is None else [[side] for side in compare]
    sides = _sides(words, window, out)
    if perfetto is not None:
        _merge(sides[0], perfetto, limit_bytes)
        return
    measured = [_measured(side, limit_bytes) for side in sides]
    if compare is not None:
        _show_comparison(measured[0], measured[1], json, markdown, top, file)
    else:
        _show(measured[0], json, markdown, top, all_, file, _again(sides[0][0], file is not None))


def _sides(words: Sequence[Sequence[str]], window: int | None, out: str | None) -> list[list[Path]]:
    """The files that words mean, of each side of a comparison.

    Raises PerfdoctorError where a window is asked for, and none of the files is that one of a run.
    """
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.runs import windows

    sides = [_files(each, window, out) for each in words]
    if window is None:
        return sides
    known = (windows.of_file(file) for side in sides for file in side)
    if window not in {one.number for one in known if one is not None}:
        raise PerfdoctorError(
            "--window selects a window of a run, but a trace file was given",
            f"leave it out, or give a run: perfdoctor trace RUN --window {window}",
        )
    return sides


def _files(words: Sequence[str], window: int | None, out: str | None) -> list[Path]:
    """The files that the words on the command line mean."""
    from perfdoctor.errors import NoSuchRun, NotATrace
    from perfdoctor.render import text
    from perfdoctor.runs import directory, lookup, windows
    from perfdoctor.trace.parse import files

    paths: list[Path] = []
    for word in words or (None,):
        path = Path(word) if word is not None else lookup.run_directory(None, out)
        if word is not None and not path.exists():
            try:
                path = lookup.run_directory(word, out)
            except NoSuchRun as error:
                raise NotATrace(
                    f"no file, folder or run called {word}",
                    f"give a file that torch.profiler wrote, or {error.hint}",
                ) from None
        path = lookup.named(Path(text.path(str(path), directory.working_folder())))
        if not path.is_dir():
            paths.append(path)
            continue
        run = path if files.any_in(path) else lookup.run_in(path)
        if directory.is_run(run):
            paths += [file.path for file in windows.of_run(run, window)]
        else:
            paths += _latest(path)
    return paths


def _latest(folder: Path) -> list[Path]:
    """The traces of a folder; says how many earlier recordings of the same workers are left out."""
    from perfdoctor.cli import output
    from perfdoctor.render import text
    from perfdoctor.trace.parse import files

    found = files.of_folder(folder)
    kept = files.latest(found)
    if left := len(found) - len(kept):
        recordings = text.count(left, "earlier recording")
        output.say(f"left out {recordings} of the same workers in {folder}", "name a file to read that one")
    return kept


def _again(path: Path, later: bool) -> str:
    """What `perfdoctor try` needs for the command of a trace: its run, or that the user names the script."""
    from perfdoctor.cli import retry
    from perfdoctor.runs import windows

    window = windows.of_file(path)
    return " -- train.py" if window is None else retry.option(str(window.run), later)


def _measured(paths: Sequence[Path], limit_bytes: int) -> list[RankTrace]:
    """Read and measure the files of one job; ranks in order."""
    from perfdoctor.trace.measure import files
    from perfdoctor.watch.samplers.host import usable_cores

    cores = max(1, int(usable_cores()[0]))
    measured = files.measured(paths, limit_bytes, cores)
    files.check(measured)
    return sorted(measured, key=lambda trace: (trace.rank is None, trace.rank or 0))


def _show(
    measured: Sequence[RankTrace],
    json: bool,
    markdown: bool,
    top: int | None,
    all_: bool,
    file: Path | None,
    again: str,
) -> None:
    from perfdoctor.cli import output
    from perfdoctor.diagnosis import trace_report

    found = trace_report.report(measured)
    if json:
        from perfdoctor.render.documents import trace as document

        output.emit(document.dumps(found).decode(), sys.stdout)
        return
    from perfdoctor.render.pages import trace as trace_page

    rows = top or (IN_HTML if file is not None else None)
    page = trace_page.page(found, rows, all_, again)
    _give(page, markdown, file)


def _give(page: Page, markdown: bool, file: Path | None) -> None:
    """Print the page, or write it as HTML."""
    from perfdoctor.cli import html_file, output

    if file is not None:
        html_file.write_page(file, page)
    else:
        output.show(page, sys.stdout, markdown)


def _show_comparison(
    before: Sequence[RankTrace],
    after: Sequence[RankTrace],
    json: bool,
    markdown: bool,
    top: int | None,
    file: Path | None,
) -> None:
    from perfdoctor.cli import output
    from perfdoctor.diagnosis.trace_comparison import compare
    from perfdoctor.render.pages import trace_comparison

    found = compare(before, after)
    if json:
        from perfdoctor.render.documents import trace_comparison as document

        output.emit(document.dumps(found).decode(), sys.stdout)
        return
    _give(trace_comparison.page(found, top), markdown, file)


def write_window(run: Path, out: str, elsewhere: str) -> None:
    """Write a window of a run with our tracks added; `elsewhere`: what to type where it cannot be written."""
    _merge(_files([str(run)], None, None), out, round(LIMIT_GB * GB), elsewhere)


def _merge(paths: Sequence[Path], out: str, limit_bytes: int, elsewhere: str = ELSEWHERE) -> None:
    """Write one trace with our tracks added."""
    from perfdoctor.cli import output
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.render import text
    from perfdoctor.runs import directory
    from perfdoctor.trace import perfetto

    if len(paths) != 1:
        raise PerfdoctorError(
            f"a file for Perfetto holds one trace, but {len(paths)} match",
            f"name one: perfdoctor trace {shlex.quote(str(paths[0]))} --perfetto {shlex.quote(out)}",
        )
    marks, told = _marks(paths[0], limit_bytes)
    perfetto.merge(paths[0], marks, Path(out), limit_bytes, elsewhere)
    shown = text.path(out, directory.working_folder())
    output.say(f"wrote {shown} with {told}", "open it in https://ui.perfetto.dev")


def _marks(path: Path, limit_bytes: int) -> tuple[list[TrackEvent], str]:
    """Our tracks for a trace, and what to say of them."""
    from perfdoctor.facts import tracks
    from perfdoctor.runs import lookup, records, windows
    from perfdoctor.trace.parse.read import read

    trace, window = read(path, limit_bytes), windows.of_file(path)
    marks = tracks.of_trace(trace)
    track = "the device's track" if marks else "no track of a device, whose work the trace does not hold"
    damage = f"; of the trace, {trace.skipped.because}" if trace.skipped.because else ""
    if window is None:
        return marks, f"{track} (no run recorded beside this trace){damage}"
    shift = tracks.shift_ns(trace, window.annotations_ns)
    if shift is None:
        return marks, f"{track} (the trace's clock cannot be matched to the run's){damage}"
    beside = tracks.of_run(
        records.read_rank(window.run, window.rank), window.rank, shift, *tracks.extent_ns(trace)
    )
    return [*marks, *beside], f"the tracks of run {lookup.named(window.run).name}{damage}"
