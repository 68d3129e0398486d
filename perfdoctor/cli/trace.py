"""`perfdoctor trace`: what a torch.profiler trace says."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from perfdoctor.trace.files import TraceFile
    from perfdoctor.trace.perfetto import Mark
    from perfdoctor.trace.results import RankTrace

GB = 10**9


def trace(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Traces, a folder with one for each rank, or a run; the newest run without it.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything measured, as JSON.")] = False,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="Say what grew and what shrank from A to B.", show_default=False),
    ] = None,
    perfetto: Annotated[
        str | None,
        typer.Option(metavar="OUT", help="Write the trace with perfdoctor's lanes merged in."),
    ] = None,
    top: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Rows in each list.", show_default=False)
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Which window of a run; the last plain one without it."),
    ] = None,
    limit_gb: Annotated[
        float, typer.Option(metavar="GB", min=0, help="Refuse a file with more JSON than this.")
    ] = 4.0,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Where the runs are kept.")] = None,
) -> None:
    """Say what a trace of torch.profiler shows: where the device's time goes, and what to change."""
    from perfdoctor.errors import PerfdoctorError

    if compare is not None and (paths or perfetto):
        raise PerfdoctorError("--compare takes two traces and nothing else", "perfdoctor trace --compare A B")
    limit_bytes = round(limit_gb * GB)
    if compare is not None:
        sides = [_measured(_files([side], window, out), limit_bytes) for side in compare]
        _show_comparison(sides[0], sides[1], json, top)
        return
    files = _files(paths or [], window, out)
    if perfetto is not None:
        _merge(files, perfetto, limit_bytes)
        return
    _show(_measured(files, limit_bytes), json, top)


def _files(paths: Sequence[str], window: int | None, out: str | None) -> list[TraceFile]:
    """The files that the words on the command line mean."""
    from perfdoctor.cli import saved
    from perfdoctor.errors import NoSuchRun, NotATrace
    from perfdoctor.render import words
    from perfdoctor.trace import files

    found = []
    for word in paths or (None,):
        path = Path(word) if word is not None else saved.find(None, out)
        if word is not None and not path.exists():
            try:
                path = saved.find(word, out)
            except NoSuchRun:
                raise NotATrace(
                    f"there is no file, folder or run called {word}",
                    "Give a file that torch.profiler wrote, or list the runs here with: perfdoctor runs",
                ) from None
        path = Path(words.path(str(path), os.getcwd()))
        if not path.is_dir():
            found.append(files.of_file(path))
        else:
            found += files.of_run(path, window) if files.is_run(path) else files.of_folder(path)
    return found


def _measured(found: Sequence[TraceFile], limit_bytes: int) -> list[RankTrace]:
    """Each file read and measured, one after the other: only the figures are kept."""
    from perfdoctor.samplers.host import usable_cores
    from perfdoctor.trace import files, several

    cores = max(1, int(usable_cores()[0]))
    measured = several.measured([file.path for file in found], limit_bytes, cores)
    files.check(measured)
    return sorted(measured, key=lambda trace: (trace.rank is None, trace.rank or 0))


def _show(measured: Sequence[RankTrace], json: bool, top: int | None) -> None:
    from perfdoctor.analysis import traces
    from perfdoctor.cli import output

    found = traces.report(measured)
    if json:
        from perfdoctor.render import tracejson

        output.emit(tracejson.dumps(found).decode(), sys.stdout)
        return
    from perfdoctor.render import tracepage

    page = tracepage.page(found, output.columns(sys.stdout), output.wants_colour(sys.stdout), top)
    output.emit(page, sys.stdout)


def _show_comparison(
    before: Sequence[RankTrace], after: Sequence[RankTrace], json: bool, top: int | None
) -> None:
    from perfdoctor.analysis.tracediff import compare
    from perfdoctor.cli import output
    from perfdoctor.render import tracediff

    found = compare(before, after)
    if json:
        output.emit(tracediff.dumps(found).decode(), sys.stdout)
        return
    page = tracediff.page(found, output.columns(sys.stdout), output.wants_colour(sys.stdout), top)
    output.emit(page, sys.stdout)


def _merge(found: Sequence[TraceFile], out: str, limit_bytes: int) -> None:
    """Write one trace with our lanes."""
    from perfdoctor.cli import output
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.trace import perfetto

    if len(found) != 1:
        raise PerfdoctorError(
            f"--perfetto writes one trace, and {len(found)} are meant", "Give one file by its name"
        )
    marks, told = _marks(found[0], limit_bytes)
    perfetto.merge(found[0].path, marks, Path(out), limit_bytes)
    output.say(f"wrote {out} with {told}", "open it in https://ui.perfetto.dev")


def _marks(file: TraceFile, limit_bytes: int) -> tuple[list[Mark], str]:
    """Our lanes for a trace, and what to say of them."""
    from perfdoctor import recorded
    from perfdoctor.analysis import lanes
    from perfdoctor.trace.read import read

    trace = read(file.path, limit_bytes)
    marks = lanes.of_trace(trace)
    damage = f"; of the trace, {trace.skipped.because}" if trace.skipped.because else ""
    if file.run is None or file.rank is None:
        return marks, f"the lane of the device (no run recorded beside this trace){damage}"
    shift = lanes.shift_ns(trace, file.marks_ns)
    if shift is None:
        return marks, f"the lane of the device (nothing ties the trace's clock to its run's){damage}"
    beside = lanes.of_run(recorded.read_rank(file.run, file.rank), file.rank, shift, *lanes.extent_ns(trace))
    return [*marks, *beside], f"the lanes of run {file.run.name}{damage}"
