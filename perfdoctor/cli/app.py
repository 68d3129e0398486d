"""The verbs, put together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from perfdoctor.cli import bug, export, history, live, loader, net, report, run, runs, tips, trace, try_

app = typer.Typer(
    name="perfdoctor",
    help="Tells you why your PyTorch training is slow, by watching the unchanged script.",
    epilog="Start with: perfdoctor run train.py",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: rich would cost a third of the start-up
    pretty_exceptions_enable=False,
)

# The command of `run` begins at its first word: what follows belongs to it, options included.
app.command("run", context_settings={"allow_interspersed_args": False})(run.run)
app.command("loader", context_settings={"allow_interspersed_args": False})(loader.loader)
app.command("net", context_settings={"allow_interspersed_args": False})(net.net)
app.command("bug")(bug.bug)
app.command("export")(export.export)
app.command("history")(history.history)
app.command("live")(live.live)
app.command("report")(report.report)
app.command("runs")(runs.runs)
app.command("tips")(tips.tips)
app.command("trace")(trace.trace)
# Its tweaks are found by looking into their folder: what is no option of ours is one of them, or mistyped.
app.command("try", context_settings={"ignore_unknown_options": True})(try_.try_)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # here: slow to import, and for this option only

        sys.stdout.write(f"perfdoctor {version('perfdoctor')}\n")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What may stand before a verb."""


def start(arguments: Sequence[str]) -> None:
    """Run the verb that the arguments name; leaves by SystemExit."""
    words = list(arguments)
    if words[:1] == ["run"]:
        words[1:] = run.marked(words[1:])
    elif words[:1] == ["loader"]:
        words[1:] = run.marked(words[1:], loader.WITH_VALUE)
    command: tuple[str, ...] = ()
    if words[:1] == ["try"]:
        words, command = try_.parted(words)
    app(args=words, prog_name="perfdoctor", obj=command)
