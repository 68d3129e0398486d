"""`perfdoctor run`: watch a command and say what its training waits for."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfdoctor.cli import html_file, output
from perfdoctor.cli.html_file import HtmlToo
from perfdoctor.model.shown import LINES

if TYPE_CHECKING:
    from pathlib import Path

    from perfdoctor.model.own_failure import OwnFailure
    from perfdoctor.model.report import Report
    from perfdoctor.watch.launch import CommandExit, WhileRunning
    from perfdoctor.watch.scheduler_task import SchedulerTask

# Options of ours that take the next word.
WITH_VALUE = ("--steps", "--seconds", "--out", "--lines", "--profiler-share", "--with", "--html")
KeepArguments = Annotated[
    bool, typer.Option("--keep-arguments", help="Store the command line with its secrets.")
]

Live = Annotated[
    bool, typer.Option("--live", help="Show phases, machine and verdict in the terminal's last rows.")
]


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
    steps: Annotated[int | None, typer.Option(min=1, help="Stop watching after this many steps.")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop watching after this many seconds.")
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="End the script when watching stops.")] = False,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Keep the run in this folder.")] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print one line instead of the report.")
    ] = False,
    lines: Annotated[int, typer.Option(min=0, metavar="N", help="Show the N costliest lines.")] = LINES,
    no_profiler: Annotated[
        bool, typer.Option("--no-profiler", help="Record no torch.profiler windows.")
    ] = False,
    profiler_share: Annotated[
        float,
        typer.Option(min=0, max=1, metavar="SHARE", help="Share of run time for torch.profiler windows."),
    ] = 0.01,
    no_stacks: Annotated[bool, typer.Option("--no-stacks", help="Take no stack samples.")] = False,
    keep_arguments: KeepArguments = False,
    tweaks: Annotated[
        str, typer.Option("--with", metavar="TWEAKS", help='Apply these tweaks: "--workers 4 --amp".')
    ] = "",
    html: HtmlToo = None,
    live: Live = False,
) -> None:
    """Watch a command without changing it, and show what its training waits for.

    Exit status, output and signals are the command's own; perfdoctor writes to stderr.
    """
    from perfdoctor.watch import launch, scheduler_task
    from perfdoctor.watch.options import Options

    _check_bounds(stop, steps, seconds)
    file = html_file.asked(html)  # hours later it would be too late to say no
    task = scheduler_task.of(os.environ)
    options = Options(
        max_steps=steps,
        max_seconds=seconds,
        stop=stop,
        out=out,
        profiler=not no_profiler,
        profiler_share=profiler_share,
        stacks=not no_stacks,
        tweaks=_applied(tweaks, command),
        keep_arguments=keep_arguments,
        task=task,
    )
    leads = task is None or task.leads
    watch = _view(live and leads, quiet or not leads)
    tell = output.say if leads and not quiet else launch.untold
    _end(launch.run(command, options, watch, tell=tell), task, quiet, lines, file)


def _check_bounds(stop: bool, steps: int | None, seconds: float | None) -> None:
    """Raise PerfdoctorError where the script is to be ended with a watch that has no end of its own."""
    from perfdoctor.errors import PerfdoctorError

    if stop and steps is None and seconds is None:
        raise PerfdoctorError(
            "--stop ends the script when watching stops, which nothing does here",
            "say when: perfdoctor run --steps 200 --stop ...",
        )


def _end(
    outcome: CommandExit, task: SchedulerTask | None, quiet: bool, lines: int, file: Path | None
) -> None:
    """Show the report, and end as the command did, whatever goes wrong in it: that is what was asked for."""
    from perfdoctor.own_failures import contained
    from perfdoctor.watch import launch

    failures: list[OwnFailure] = []
    try:
        with contained("the report", failures):
            _report(outcome, task, quiet, lines, file)
    except KeyboardInterrupt:
        outcome = _given_up(outcome)
    finally:
        if sys.exc_info()[0] is not None:
            sys.excepthook(*sys.exc_info())
        for failure in failures:
            from perfdoctor.cli import bug

            bug.tell(failure, sys.argv[1:], outcome.path)
        launch.mirror(outcome)


def _given_up(outcome: CommandExit) -> CommandExit:
    """Say what to type for the report that Ctrl-C interrupted; the outcome with the status for that."""
    import dataclasses
    import signal

    from perfdoctor.errors import SIGNALLED

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all that is left to do is to say so
    # Python ends by the signal once Ctrl-C came in the middle of an `exec`, as in making a dataclass, however
    # that was caught; the next `exec` makes it forget.
    exec("")
    if outcome.path is not None:
        output.say(
            f"interrupted before its report was made; the run is kept in {outcome.path}",
            f"show it: perfdoctor report {shlex.quote(str(outcome.path))}",
        )
    return dataclasses.replace(outcome, status=SIGNALLED + signal.SIGINT, signal=None)


def _view(live: bool, quiet: bool) -> WhileRunning | None:
    """What shows the run while the command runs."""
    if live:
        from perfdoctor.cli import live_panel

        return live_panel.watch
    return None if quiet else _watch


def _watch(path: Path, process: Any) -> AbstractContextManager[None]:
    """The live line: how far, how fast, how much of it is waiting."""
    from perfdoctor.render.progress import live_line

    def follow() -> Callable[[float], str]:
        # here: the start does not wait for numpy
        from perfdoctor.watch.samplers.progress import ProgressReader

        follower = ProgressReader(path)

        def line(elapsed_s: float) -> str:
            now = follower.look()
            return live_line.figures(now.steps, now.steps_per_s, now.waiting_share, elapsed_s)

        return line

    return live_line.shown(follow)


def _applied(typed: str, command: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The tweaks that `--with` names, as the probe is told them; `command` is what they are for."""
    if not typed:
        return {}
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.model.trial import Variant
    from perfdoctor.probe.trial.tweak import AUTO
    from perfdoctor.trials.settings import flags, tweak_catalogue

    try:
        settings = flags.read(shlex.split(typed), tweak_catalogue.tweaks(), command=command)
    except ValueError as error:  # of quotes that are not closed
        hint = "put all of it in quotes: --with '--workers 4 --amp'"
        raise PerfdoctorError(f"--with {typed}: {str(error).lower()}", hint) from None
    for setting in settings:
        if AUTO in setting.values.values():
            words = " ".join(setting.words)
            raise PerfdoctorError(
                f"{words}: only a trial can choose the value",
                f"run one: perfdoctor try {words} -- {shlex.join(command)}",
            )
    return Variant(settings).tweaks


def _report(
    outcome: CommandExit, task: SchedulerTask | None, quiet: bool, lines: int, html: Path | None
) -> None:
    """What to say at the end: of several tasks, the first shows the page, and the others only failures."""
    from perfdoctor.watch import scheduler_task

    if outcome.path is None:
        return
    if outcome.given_up:
        raise KeyboardInterrupt
    if task is not None and not task.leads:
        if outcome.status and not outcome.interrupted:
            failed = outcome.failed or f"rank {task.rank} ended with status {outcome.status}"
            output.say(f"{failed}; the run is kept in {outcome.path}")
        return
    if task is not None:
        scheduler_task.wait_for_others(outcome.path)
    _tell(outcome.path, quiet, lines, html)
    if quiet and outcome.failed is not None:
        output.say(outcome.failed)


def _tell(path: Path, quiet: bool, lines: int, html: Path | None) -> None:
    """The report on stderr: a page, or one line; and in the HTML file, where one is asked for."""
    from perfdoctor.cli import retry
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.render import text

    try:
        report = _judged(path, html)
    except PerfdoctorError as error:
        output.say(str(error), error.hint)
        return
    if quiet:
        output.say(text.summary(report))
        return
    from perfdoctor.render.pages import report as report_page
    from perfdoctor.runs import directory

    page = report_page.page(
        report, costly=lines, again=retry.option(report.path), here=directory.working_folder()
    )
    output.show(page, sys.stderr)


def _judged(path: Path, html: Path | None) -> Report:
    """The report, written as an HTML file where one is asked for."""
    from perfdoctor.cli import kept_report, output
    from perfdoctor.errors import PerfdoctorError

    if html is None:
        return kept_report.judge(path, leading_only=True, before_measuring=output.say)
    judged = kept_report.judge_over_time(path, leading_only=True, before_measuring=output.say)
    try:
        html_file.write_report(html, judged, None)
    except PerfdoctorError as error:
        output.say(str(error), error.hint)
    return judged.report
