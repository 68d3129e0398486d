"""`perfdoctor try`: apply changes inside the script and measure them against the script as it is."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfdoctor.cli import html_file, together
from perfdoctor.cli.html_file import HtmlToo
from perfdoctor.cli.run import KeepArguments
from perfdoctor.errors import NoSuchRun, PerfdoctorError

if TYPE_CHECKING:
    from perfdoctor.cli.retry import Again
    from perfdoctor.model.trial import Setting, Trial, Variant
    from perfdoctor.trials import Request

OPTIONS = tuple(  # what a mistyped flag may have meant, beside tweaks
    "--each --auto --ranks --list --rounds --steps --seconds --metric --json --yes --out --run"
    " --keep-arguments --html --help".split()
)
ALL = "all tweaks: perfdoctor try --list"


def parted(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """The words before the first `--`, and the command behind it; a later `--` is the command's own."""
    own = list(words)
    at = own.index("--") if "--" in own else len(own)
    return own[:at], tuple(own[at + 1 :])


def _finite(seconds: float | None) -> float | None:
    """The time of a trial, which needs an end: a usage error for `inf`, and for `nan`."""
    if seconds is not None and not math.isfinite(seconds):
        raise typer.BadParameter(f"{seconds} is no time for a trial: give seconds, as in --seconds 3600")
    return seconds


def try_(
    context: typer.Context,
    tweaks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="--TWEAK [VALUE]",
            help="What to change. The command follows --; the default is the newest run's.",
            show_default=False,
        ),
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Measure each tweak alone, then all together.")
    ] = False,
    auto: Annotated[
        bool, typer.Option("--auto", help="Try the tweaks that the run advises, keep what helps.")
    ] = False,
    ranks: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Compare numbers of ranks instead, as in 1,2,4.")
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List all tweaks, or explain the named ones.")
    ] = False,
    rounds: Annotated[int | None, typer.Option(metavar="N", min=3, help="At most this many rounds.")] = None,
    steps: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Steps to measure in each round.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(metavar="S", min=1, callback=_finite, help="Time, but at least 3 rounds.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Compare a printed figure, too: 'acc: ([0-9.]+)'.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything measured, as JSON.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Continue even if files cannot be protected.")] = False,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Keep the trial in this folder.")] = None,
    keep_arguments: KeepArguments = False,
    html: HtmlToo = None,
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="The run whose command to try (default: the newest).")
    ] = None,
) -> None:
    """Try changes and measure them: perfdoctor try --workers 4 --amp -- train.py.

    The script runs unchanged and changed in turns, each time for the same number of steps. Your files stay
    untouched.
    """
    if list_:
        _list(tweaks or [], context)
        return
    from perfdoctor.runs import directory
    from perfdoctor.trials import Request

    file = html_file.asked(html)
    counts = _counts(ranks, tweaks or each or auto) if ranks is not None else ()
    again, variants = _chosen(tweaks or [], each, auto or bool(counts), context.obj or (), run)
    request = Request(
        again.command, variants, again.cwd, rounds, steps, seconds, metric, yes, out, again.run, counts, auto
    )
    trial = _measured(replace(request, keep_arguments=keep_arguments), again.told)
    _show(trial, json, directory.working_folder(), file)


def _chosen(
    words: Sequence[str], each: bool, auto: bool, command: tuple[str, ...], run: str | None
) -> tuple[Again, tuple[Variant, ...]]:
    """What to run, and in which variants.

    Those for --auto are tried besides what the run advises; numbers of ranks need none, either.
    """
    from perfdoctor.model.trial import Variant
    from perfdoctor.trials.settings import flags, tweak_catalogue

    settings = flags.read(words, tweak_catalogue.tweaks(), OPTIONS)
    if auto and each:
        hint = "choose one: --auto keeps what helps and goes on from there, --each measures each tweak alone"
        raise PerfdoctorError("--auto and --each exclude each other", hint)
    if not (settings or each or auto):
        raise _nothing_asked(command, run)
    found = _command(command, run)
    if not (settings or auto):
        settings = _advised(found)
    alone = [Variant((setting,)) for setting in settings]
    if auto:
        return found, tuple(alone)
    return found, (*(alone if each and len(alone) > 1 else ()), Variant(settings))


def _counts(typed: str, beside: object) -> tuple[int, ...]:
    """The numbers of ranks to compare, if nothing else is to be changed."""
    from perfdoctor.trials.settings import rank_count

    if beside:
        hint = "compare ranks first, then try the tweaks with the best number of ranks"
        raise PerfdoctorError("--ranks and tweaks exclude each other", hint)
    return rank_count.counts(typed)


def _command(command: tuple[str, ...], run: str | None) -> Again:
    """What to run: the command given, or that of a run."""
    from perfdoctor.cli import retry as again

    return again.given(command, run) if command else again.last(run)


def _nothing_asked(command: tuple[str, ...], run: str | None) -> PerfdoctorError:
    """What to type instead of nothing: what the run advises first."""
    try:
        found = _command(command, run)
    except NoSuchRun:
        return PerfdoctorError("no tweak is given", f"name one, as in: perfdoctor try --workers 4; {ALL}")
    advice = _advice(found.run)
    if not advice:
        return PerfdoctorError("no tweak is given, and no run advises one", f"name one; {ALL}")
    behind = (f" --run {shlex.quote(run)}" if run else "") + (f" -- {shlex.join(command)}" if command else "")
    return PerfdoctorError("no tweak is given", f"the run advises: perfdoctor try {advice[0]}{behind}; {ALL}")


def _advice(run: Path | None) -> list[str]:
    """Tweaks that the findings of a run name, best first."""
    from perfdoctor.cli import kept_report

    findings = kept_report.judge(run).findings if run is not None else ()
    return [finding.advice.tweak for finding in findings if finding.advice.tweak]


def _advised(found: Again) -> tuple[Setting, ...]:
    """All tweaks that the run advises, each once, as its best finding has it."""
    from perfdoctor.trials.settings import flags, tweak_catalogue

    known = tweak_catalogue.tweaks()
    settings: dict[str, Setting] = {}
    for words in _advice(found.run):
        for setting in flags.read(shlex.split(words), known):
            settings.setdefault(setting.tweak, setting)
    if not settings:
        hint = f"name them: perfdoctor try --each --workers 4 --amp; {ALL}"
        raise PerfdoctorError("no run of this command advises a tweak", hint)
    return tuple(settings.values())


def _measured(request: Request, told: Sequence[str]) -> Trial:
    """The trial, kept beside its executions."""
    from perfdoctor import trials
    from perfdoctor.cli import output
    from perfdoctor.render.documents import trial as document
    from perfdoctor.render.progress import trial as trial_progress
    from perfdoctor.trials import trial_file, tried_changes

    with trial_progress.shown(output.say) as progress:
        for sentence in told:
            progress.say(sentence)
        trial = trials.run(request, progress)
    try:
        trial_file.keep(trial, document.document(trial))
    except OSError as error:
        output.say(f"the trial cannot be kept: {error.strerror}")
    try:
        tried_changes.note(trial)
    except OSError as error:
        output.say(f"the trial is not added to the history: {error.strerror}")
    return trial


def _show(trial: Trial, json: bool, here: str, file: Path | None) -> None:
    from perfdoctor.cli import output
    from perfdoctor.render.pages import trial as trial_page

    page = trial_page.page(trial, here)
    if json:
        from perfdoctor.render.documents import trial as document

        output.emit(document.dumps(trial).decode(), sys.stdout)
    else:
        output.show(page, sys.stdout)
    if file is not None:
        html_file.write_page(file, page)
    if trial.exit_code:
        raise typer.Exit(trial.exit_code)


def _list(words: Sequence[str], context: typer.Context) -> None:
    """All tweaks, or the pages of those named. Raises PerfdoctorError for options that would be dropped."""
    from perfdoctor.cli import output
    from perfdoctor.render.pages import tweaks as tweak_pages
    from perfdoctor.trials.settings import flags, tweak_catalogue

    others = {f"--{name.replace('_', '-')}": bool(given) for name, given in context.params.items()}
    del others["--tweaks"], others["--list-"]
    together.refuse("--list", True, {**others, "the command": bool(context.obj)})
    known = tweak_catalogue.tweaks()
    if not words:
        output.show(tweak_pages.page(known, tweak_catalogue.RESULTS), sys.stdout)
        return
    named = flags.listed(words, known)
    output.emit("\n".join(map(tweak_pages.explained, named)), sys.stdout)
