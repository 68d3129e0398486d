"""`perfdoctor net`: measure the link between ranks."""

from __future__ import annotations

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
            help="torchrun --nnodes 2 ...: starts perfdoctor's test program. Default: this host.",
            show_default=False,
        ),
    ] = None,
    ranks: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Ranks on this host; by default one per GPU, or 2.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, max=86_400, help="Time for all sizes together.")] = 15.0,
    json: Annotated[bool, typer.Option("--json", help="Print everything measured, as JSON.")] = False,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Keep the measurements in this folder.")
    ] = None,
) -> None:
    """Measure how fast ranks synchronise gradients: all-reduces from 4 bytes to 64 MB.

    Between hosts, run on each: perfdoctor net -- torchrun --nnodes 2 --rdzv-endpoint ...
    """
    from perfdoctor.cli import output
    from perfdoctor.runs import directory
    from perfdoctor.watch.machine import link as measuring

    found = measuring.measure(tuple(launcher or ()), ranks, seconds, out, _watch)
    if json:
        from perfdoctor.render.documents import link as document

        output.emit(document.dumps(found).decode(), sys.stdout)
    else:
        from perfdoctor.render.pages import link

        output.show(link.page(found, directory.working_folder()), sys.stdout)
    if found.ended is not None:
        raise typer.Exit(INTERRUPTED if found.ended == measuring.INTERRUPTED else 1)


def _watch(folder: Path) -> AbstractContextManager[None]:
    """The live line: which size is being measured."""
    from perfdoctor.render import text
    from perfdoctor.render.progress import live_line
    from perfdoctor.watch.machine import link as measuring

    def line(elapsed_s: float) -> str:
        size = measuring.progress(folder)
        told = "waiting for all ranks" if size is None else f"measured up to {text.size(size)}"
        return text.joined([told, text.duration(round(elapsed_s))])

    def follow() -> Callable[[float], str]:
        return line

    return live_line.shown(follow)
