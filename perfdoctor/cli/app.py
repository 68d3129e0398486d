"""The verbs, put together: all of them for the help, else the one that was typed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from perfdoctor.cli.verb import Verb, Verbs

# The command of these begins at its first word: what follows belongs to it, options included.
WITH_COMMAND: dict[str, Any] = {"allow_interspersed_args": False}
# Its tweaks are found by looking into their folder: what is no option of ours is one of them, or mistyped.
WITH_TWEAKS: dict[str, Any] = {"ignore_unknown_options": True}
# In the order of the help, how typer is to read what follows each; its function has the name of its file.
VERBS: dict[str, dict[str, Any]] = {
    "run": WITH_COMMAND,
    "loader": WITH_COMMAND,
    "net": WITH_COMMAND,
    "bug": {},
    "export": {},
    "history": {},
    "live": {},
    "patch": {},
    "report": {},
    "runs": {},
    "tips": {},
    "trace": {},
    "try": WITH_TWEAKS,
}
FILES = {"try": "try_"}  # of verbs that are words of Python


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata  # here: slow to import, and for this option only

        try:
            version = metadata.version("perfdoctor")
        except metadata.PackageNotFoundError:  # run from a checkout
            version = "of a checkout that is not installed"
        sys.stdout.write(f"perfdoctor {version}\n")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What may stand before a verb."""


def start(arguments: Sequence[str]) -> None:
    """Run the verb that the arguments name; leaves by SystemExit."""
    words = list(arguments)
    if words[:1] == ["--"]:  # nothing but a verb can stand behind it
        del words[0]
    verb = words[0] if words and words[0] in VERBS else None
    command: tuple[str, ...] = ()
    if verb == "run":
        from perfdoctor.cli import run

        words[1:] = run.marked(words[1:])
    elif verb == "loader":
        from perfdoctor.cli import loader, run

        words[1:] = run.marked(words[1:], loader.WITH_VALUE)
    elif verb == "try":
        from perfdoctor.cli import try_

        words, command = try_.parted(words)
    _app(verb)(args=words, prog_name="perfdoctor", obj=command)


def _app(typed: str | None) -> typer.Typer:
    """The command with the verb that was typed, or with all of them for the help."""
    app = typer.Typer(
        name="perfdoctor",
        cls=Verbs,
        help="Tells you why your PyTorch training is slow, by watching the unchanged script.",
        epilog="Start with: perfdoctor run train.py",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # plain help: rich would cost a third of the start-up
        pretty_exceptions_enable=False,
    )
    app.callback()(options)
    for verb in VERBS if typed is None else (typed,):
        file = FILES.get(verb, verb)
        called = getattr(importlib.import_module(f"perfdoctor.cli.{file}"), file)
        called = called if verb == typed else _described(called)
        app.command(verb, cls=Verb, context_settings=VERBS[verb])(called)
    return app


def _described(called: Callable[..., None]) -> Callable[[], None]:
    """What is said of a verb, without what it takes: to read that of all is a tenth of the start-up."""

    def described() -> None: ...

    described.__doc__ = called.__doc__
    return described
