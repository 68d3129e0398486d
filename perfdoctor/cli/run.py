"""`perfdoctor run`: watch a command and say what its training waits for."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from perfdoctor.launch import Outcome
    from perfdoctor.tasks import Task

# Options of ours that take the next word.
WITH_VALUE = ("--steps", "--seconds", "--out", "--profiler-share", "--with")


def marked(words: Sequence[str], with_value: Sequence[str] = WITH_VALUE) -> list[str]:
    """The words with `--` before a command that begins with `-m`, which is no option of ours."""
    position = 0
    while position < len(words) and words[position].startswith("-") and words[position] not in ("-", "--"):
        if words[position].startswith("-m"):
            return [*words[:position], "--", *words[position:]]
        position += 2 if words[position] in with_value else 1
    return list(words)


def run(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND",
            help="train.py ARGS, -m package.train ARGS, - (stdin), torchrun ... train.py, any command.",
            show_default=False,
        ),
    ],
    steps: Annotated[int | None, typer.Option(min=1, help="End the watch after this many steps.")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="End the watch after this many seconds.")
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="End the script when the watch ends.")] = False,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Keep the run in this folder.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say one line instead of a page.")] = False,
    no_profiler: Annotated[bool, typer.Option("--no-profiler", help="Record no profiler windows.")] = False,
    profiler_share: Annotated[
        float, typer.Option(min=0, max=1, metavar="SHARE", help="Of run time, for profiler windows.")
    ] = 0.01,
    no_stacks: Annotated[bool, typer.Option("--no-stacks", help="Take no stack samples.")] = False,
    tweaks: Annotated[
        str, typer.Option("--with", metavar="TWEAKS", help='Apply tweaks: "--workers 4 --amp".')
    ] = "",
) -> None:
    """Watch a command, unchanged, and show what its training waits for.

    Exit status, output and signals are the command's own; perfdoctor writes to stderr.
    """
    from perfdoctor import launch, tasks
    from perfdoctor.render import live

    task = tasks.of(os.environ)
    options = launch.Options(
        max_steps=steps,
        max_seconds=seconds,
        stop=stop,
        out=out,
        quiet=quiet or not (task is None or task.leads),
        profiler=not no_profiler,
        profiler_share=profiler_share,
        stacks=not no_stacks,
        tweaks=_applied(tweaks),
        task=task,
    )
    outcome = launch.run(command, options, None if options.quiet else live.watch)
    try:
        _report(outcome, task, quiet)
    finally:
        # Whatever goes wrong in a report, the command's status is what the caller asked for.
        if sys.exc_info()[0] is not None:
            sys.excepthook(*sys.exc_info())
        launch.mirror(outcome)


def _applied(typed: str) -> dict[str, dict[str, Any]]:
    """The tweaks that `--with` names, as the probe is told them."""
    import shlex

    if not typed:
        return {}
    from perfdoctor import catalogue
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.probe.tweak import AUTO
    from perfdoctor.trial import Variant
    from perfdoctor.trials import flags

    try:
        settings = flags.read(shlex.split(typed), catalogue.tweaks())
    except ValueError as error:  # of quotes that are not closed
        hint = "quote all of it: --with '--workers 4 --amp'"
        raise PerfdoctorError(f"--with {typed}: {str(error).lower()}", hint) from None
    for setting in settings:
        if AUTO in setting.values.values():
            words = " ".join(setting.words)
            raise PerfdoctorError(f"{words}: only a trial can choose", f"let it: perfdoctor try {words}")
    return Variant(settings).tweaks


def _report(outcome: Outcome, task: Task | None, quiet: bool) -> None:
    """What to say at the end: of several tasks, the first shows the page, and the others only failures."""
    from perfdoctor import tasks
    from perfdoctor.cli import output

    if outcome.path is None:
        return
    if task is not None and not task.leads:
        if outcome.status and not outcome.interrupted:
            failed = outcome.failed or f"rank {task.rank} ended with status {outcome.status}"
            output.say(f"{failed}; kept in {outcome.path}")
        return
    if task is not None:
        tasks.wait_for_others(outcome.path)
    _tell(outcome.path, quiet)
    if quiet and outcome.failed is not None:
        output.say(outcome.failed)


def _tell(path: Path, quiet: bool) -> None:
    """The report on stderr: a page, or one line."""
    from perfdoctor.cli import output, saved
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.render import words

    try:
        report = saved.judge(path, output.say)
    except PerfdoctorError as error:
        output.say(str(error), error.hint)
        return
    if quiet:
        output.say(words.summary(report))
        return
    from perfdoctor.render import terminal  # here: rich is only needed for a page

    page = terminal.page(report, output.columns(sys.stderr), output.wants_colour(sys.stderr))
    output.emit(page, sys.stderr)
