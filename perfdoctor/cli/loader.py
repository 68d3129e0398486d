"""`perfdoctor loader`: measure a script's DataLoader by itself, over numbers of workers."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer

from perfdoctor.cli import html_file
from perfdoctor.cli.html_file import HtmlToo
from perfdoctor.errors import SIGNALLED, PerfdoctorError

# Options that take the next word.
WITH_VALUE = ("--seconds", "--workers", "--number", "--at", "--html", "--out")
INTERRUPTED = SIGNALLED + signal.SIGINT


def loader(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND",
            help="train.py ARGS, -m package.train ARGS, torchrun ... train.py, any command.",
            show_default=False,
        ),
    ],
    seconds: Annotated[
        float, typer.Option(min=1, max=86_400, help="Time for all measurements together.")
    ] = 60.0,
    workers: Annotated[
        str | None,
        typer.Option(metavar="N,N,...", help="Numbers of workers to measure; by default a usual range."),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Measure the N-th DataLoader that the script builds."),
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="FILE:LINE", help="Measure the DataLoader built at this line.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything measured, as JSON.")] = False,
    html: HtmlToo = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Keep the measurements in this folder.")
    ] = None,
) -> None:
    """Measure a script's DataLoader without training, and say how many workers it needs.

    The script runs up to the loader it trains with, and ends there. Its output goes to stderr.
    """
    from perfdoctor.cli import output
    from perfdoctor.watch import launch
    from perfdoctor.watch.options import Options

    if number is not None and at is not None:
        raise PerfdoctorError("--number and --at both choose the DataLoader", "leave out one of them")
    file = html_file.asked(html)
    asked = {
        "seconds": seconds,
        "workers": _counts(workers) if workers is not None else None,
        "number": number,
        "at": _place(at) if at is not None else None,
        "cores": _cores(),
    }
    options = Options(out=out, stop=True, profiler=False, stacks=False, loader=asked)
    outcome = launch.run(command, options, _watch, _no_samples, output.say)
    if outcome.path is None:  # there is no such script: its interpreter has said so
        raise typer.Exit(outcome.status)
    _show(outcome.path, json, file)


def _counts(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() for word in words):
        raise PerfdoctorError(
            f"--workers {text}: these are not numbers of workers", "separate them by commas: 0,1,2,4"
        )
    return sorted({int(word) for word in words})


def _place(text: str) -> str:
    file, _, line = text.rpartition(":")
    if not file or not line.isdigit():
        raise PerfdoctorError(f"--at {text}: this is not a line of a file", "write it like train.py:41")
    # `./` and `../` are of the folder that they are typed in; else the end of a path names the file.
    file = os.path.abspath(file) if file.startswith(("./", "../")) else os.path.normpath(file)
    return f"{file}:{line}"


def _cores() -> float:
    from perfdoctor.watch.samplers.host import usable_cores

    return usable_cores()[0]


class _NoSampler:
    """Nothing is sampled beside a loader: samples would cost it time."""

    def stop(self) -> None:
        """Nothing to end."""


def _no_samples(path: Path, pid: int, options: Mapping[str, Any]) -> _NoSampler:
    return _NoSampler()


def _watch(path: Path, process: Any) -> AbstractContextManager[None]:
    """The live line: which setting is being measured."""
    from perfdoctor.render import text
    from perfdoctor.render.progress import live_line
    from perfdoctor.watch import limits

    def line(elapsed_s: float) -> str:
        stage = limits.progress(path)
        told = "waiting for the loader" if stage is None else f"measuring {stage}"
        return text.joined([told, text.duration(round(elapsed_s))])

    def follow() -> Callable[[float], str]:
        return line

    return live_line.shown(follow)


def _show(path: Path, json: bool, file: Path | None) -> None:
    from perfdoctor.cli import output
    from perfdoctor.facts.data import loader_curve
    from perfdoctor.render.notes import all_worded
    from perfdoctor.render.pages import loader as loader_page
    from perfdoctor.runs import directory, records
    from perfdoctor.runs.source_lines import SourceLines
    from perfdoctor.wire.names import PROBE_LOG

    read = records.read(path)
    curve = loader_curve.curve(read, SourceLines.of(read))
    if not curve.settings:
        log = path / PROBE_LOG
        trouble = f"the error is in {log}" if log.exists() else None
        raise PerfdoctorError("; ".join(all_worded(curve.notes)), trouble or curve.hint)
    page = loader_page.page(curve, directory.working_folder())
    if json:
        from perfdoctor.render.documents import loader as document

        output.emit(document.dumps(curve).decode(), sys.stdout)
    else:
        output.show(page, sys.stdout)
    if file is not None:
        html_file.write_page(file, page)
    if curve.outcome == "interrupted":
        raise typer.Exit(INTERRUPTED)
