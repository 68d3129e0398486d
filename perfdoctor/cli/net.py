"""`perfdoctor net`: measure the link between ranks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer

from perfdoctor.cli.loader import INTERRUPTED


def net(
    launcher: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- LAUNCHER]",
            help="torchrun --nnodes 2 ...: starts our program, which is put behind it. Without: this host.",
            show_default=False,
        ),
    ] = None,
    ranks: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Ranks on this host; its GPUs, or 2, without it.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="For all sizes together.")] = 15.0,
    json: Annotated[bool, typer.Option("--json", help="Print everything measured, as JSON.")] = False,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Keep what is measured here.")] = None,
) -> None:
    """Measure how fast ranks exchange gradients: all-reduces from 4 bytes to 64 MB.

    Between hosts, type on each: perfdoctor net -- torchrun --nnodes 2 --rdzv-endpoint ...
    """
    from perfdoctor import net as measuring
    from perfdoctor.cli import output

    found = measuring.measure(tuple(launcher or ()), ranks, seconds, out, _watch)
    if json:
        from perfdoctor.render import netjson

        output.emit(netjson.dumps(found).decode(), sys.stdout)
    else:
        from perfdoctor.render import netpage

        width, colour = output.columns(sys.stdout), output.wants_colour(sys.stdout)
        output.emit(netpage.page(found, width, colour, os.getcwd()), sys.stdout)
    if found.ended is not None:
        raise typer.Exit(INTERRUPTED if found.ended == measuring.INTERRUPTED else 1)


def _watch(folder: Path) -> AbstractContextManager[None]:
    """The live line: which size is being measured."""
    from perfdoctor import net as measuring
    from perfdoctor.render import live, words

    def line(elapsed_s: float) -> str:
        size = measuring.progress(folder)
        told = "waiting for all ranks" if size is None else f"measured up to {words.size(size)}"
        return words.joined([told, words.duration(round(elapsed_s))])

    def follow() -> Callable[[float], str]:
        return line

    return live.shown(follow)
