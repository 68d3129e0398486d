"""`perfdoctor loader`: measure a script's DataLoader by itself, over numbers of workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer

from perfdoctor.errors import PerfdoctorError

WITH_VALUE = ("--seconds", "--workers", "--number", "--at", "--out")  # options that take the next word
INTERRUPTED = 130  # what a shell answers for Ctrl-C


def loader(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND",
            help="train.py ARGS, -m package.train ARGS, torchrun ... train.py, any command.",
            show_default=False,
        ),
    ],
    seconds: Annotated[float, typer.Option(min=1, help="For all measurements together.")] = 60.0,
    workers: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Numbers of workers; the usual ones without it.")
    ] = None,
    number: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Measure the N-th DataLoader that the script builds."),
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="FILE:LINE", help="Measure the DataLoader built in this line.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything measured, as JSON.")] = False,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Keep what is measured here.")] = None,
) -> None:
    """Measure a script's DataLoader without training, and say how many workers it wants.

    The script runs up to the loader it trains with, and ends there. What it prints goes to stderr.
    """
    from perfdoctor import launch

    asked = {
        "seconds": seconds,
        "workers": _counts(workers) if workers is not None else None,
        "number": number,
        "at": _place(at) if at is not None else None,
        "cores": _cores(),
    }
    options = launch.Options(out=out, stop=True, profiler=False, stacks=False, loader=asked)
    outcome = launch.run(command, options, _watch, _no_samples)
    if outcome.path is None:  # there is no such script: its interpreter has said so
        raise typer.Exit(outcome.status)
    _show(outcome.path, json)


def _counts(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() for word in words):
        raise PerfdoctorError(f"--workers {text}: these are no numbers", "separate them by commas: 0,1,2,4")
    return sorted({int(word) for word in words})


def _place(text: str) -> str:
    file, _, line = text.rpartition(":")
    if not file or not line.isdigit():
        raise PerfdoctorError(f"--at {text}: this is no line of a file", "write it like train.py:41")
    return text


def _cores() -> float:
    from perfdoctor.samplers.host import usable_cores

    return usable_cores()[0]


class _NoSampler:
    """Nothing is sampled beside a loader: samples would cost it time."""

    def stop(self) -> None:
        """Nothing to end."""


def _no_samples(path: Path, pid: int, options: Mapping[str, Any]) -> _NoSampler:
    return _NoSampler()


def _watch(path: Path, process: Any) -> AbstractContextManager[None]:
    """The live line: which setting is being measured."""
    from perfdoctor import limits
    from perfdoctor.render import live, words

    def line(elapsed_s: float) -> str:
        stage = limits.progress(path)
        told = "waiting for the loader" if stage is None else f"measuring {stage}"
        return words.joined([told, words.duration(round(elapsed_s))])

    def follow() -> Callable[[float], str]:
        return line

    return live.shown(follow)


def _show(path: Path, json: bool) -> None:
    from perfdoctor import recorded
    from perfdoctor.analysis import loadercurve
    from perfdoctor.cli import output
    from perfdoctor.sources import SourceLines

    curve = loadercurve.curve(recorded.read(path), SourceLines())
    if not curve.settings:
        log = path / "probe.log"
        trouble = f"what went wrong is written in {log}" if log.exists() else None
        raise PerfdoctorError("; ".join(curve.notes), trouble or curve.hint)
    if json:
        from perfdoctor.render import loaderjson

        output.emit(loaderjson.dumps(curve).decode(), sys.stdout)
    else:
        from perfdoctor.render import loaderpage

        page = loaderpage.page(
            curve, output.columns(sys.stdout), output.wants_colour(sys.stdout), os.getcwd()
        )
        output.emit(page, sys.stdout)
    if curve.outcome == "interrupted":
        raise typer.Exit(INTERRUPTED)
