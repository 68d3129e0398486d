"""`perfdoctor live`: a run that goes on, as it is now and with its verdict so far."""

from __future__ import annotations

import os
import shlex
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from perfdoctor.cli.following import Following

LINE_S = 10.0  # between two lines where no view can be drawn
NO_SCREEN = "stdout is not a terminal that can redraw: one line every 10 s instead of the view"


def live(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="A run's id or folder (default: the newest run)."),
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="The folder of the runs.")] = None,
) -> None:
    """Follow a running training: its last steps, each rank, and the verdict so far.

    It only reads the run's files: from another terminal, or over a shared folder from another machine.
    """
    from perfdoctor.cli import output
    from perfdoctor.cli.following import Following
    from perfdoctor.errors import SIGNALLED
    from perfdoctor.render.progress import live_line
    from perfdoctor.runs import lookup
    from perfdoctor.watch import signals

    following = Following(lookup.run_directory(run, out))
    try:
        with signals.stoppable():
            if following.look().state.is_over:
                _last(following)
            elif not live_line.is_wanted(sys.stdout, os.environ):
                output.say(NO_SCREEN)
                _lines(following)
            elif _full_screen(following):
                _last(following)
    except KeyboardInterrupt as stop:
        raise typer.Exit(SIGNALLED + signals.number_of(stop)) from None


def _full_screen(following: Following) -> bool:
    """Show it until `q` is typed or the run is over; True if it is over."""
    from perfdoctor.cli import output
    from perfdoctor.render.progress import live_view
    from perfdoctor.render.progress.keyboard import Keyboard

    keyboard = Keyboard(sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None)
    hint = live_view.LEAVES if keyboard else live_view.LEAVES_BY_CTRL_C
    view = live_view.LiveView(output.wants_colour(sys.stdout))
    screen = live_view.FullScreen(sys.stdout.fileno(), keyboard, sys.stdout.encoding or "ascii")
    with screen.shown():
        while True:
            began_s, size = time.thread_time(), screen.size
            now = following.look()
            if now.state.is_over:
                return True
            screen.draw(view.lines(now, following.report, size, hint))
            until_s = time.monotonic() + following.pause_s(time.thread_time() - began_s)
            while time.monotonic() < until_s and screen.size == size:
                if keyboard.wait(live_view.LOOK_S):
                    return False


def _lines(following: Following) -> None:
    """A line now and then until the run is over."""
    from perfdoctor.cli import output
    from perfdoctor.render.progress import live_view

    while True:
        began_s = time.thread_time()
        now = following.look()
        is_read = output.emit(f"{live_view.sentence(now, following.report)}\n", sys.stdout)
        if now.state.is_over or not is_read:
            return
        time.sleep(max(LINE_S, following.pause_s(time.thread_time() - began_s)))


def _last(following: Following) -> None:
    """What has come of a run that is over, and where its report is."""
    from perfdoctor.cli import output
    from perfdoctor.render import text
    from perfdoctor.render.progress import live_view
    from perfdoctor.runs import directory

    now = following.now or following.look()
    view = live_view.LiveView(output.wants_colour(sys.stdout))
    lines = view.whole(now, following.conclude(), output.columns(sys.stdout))
    where = text.path(str(following.path), directory.working_folder())
    more = text.escape_control(f"  The run is over. Its report: perfdoctor report {shlex.quote(where)}")
    output.emit("\n".join(["", *lines, "", more, ""]), sys.stdout)
