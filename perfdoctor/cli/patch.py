"""`perfdoctor patch`: what a trial proved, as a diff of the script's files."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from perfdoctor.model.trial import Trial, VariantResult
    from perfdoctor.trials.edits.patch_file import PatchFile


def patch(
    trial: Annotated[
        str | None,
        typer.Argument(metavar="[TRIAL]", help="The trial: its id or folder (default: the newest)."),
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="The folder of the trials.")] = None,
) -> None:
    """Write what a trial found to be faster as a diff: perfdoctor patch | git apply.

    The diff goes to stdout, and what it cannot hold is said on stderr. Your files stay as they are until you
    apply it. The exit status is 1 where nothing can be written.
    """
    from perfdoctor.cli import kept_trials, output
    from perfdoctor.trials.edits import patch_file

    meant, _, _ = kept_trials.named_or_newest(trial, out)
    result = _proved(meant)
    found = patch_file.of_variant(meant, result)
    _tell(meant, result, found)
    if not found.diff:
        raise typer.Exit(1)
    output.emit_as_it_is(found.diff, sys.stdout)  # the files' own letters, whatever a terminal can spell


def _proved(trial: Trial) -> VariantResult:
    """What was faster, or was kept. Raises PerfdoctorError where nothing was."""
    from perfdoctor.errors import PerfdoctorError

    kept = trial.winner or next((each for each in trial.verdicts if each.variant.words == trial.kept), None)
    if kept is None or not kept.variant.settings:
        raise PerfdoctorError(
            "this trial found nothing that is faster",
            f"what it found: perfdoctor report --trials {shlex.quote(trial.path)}",
        )
    return kept


def _tell(trial: Trial, result: VariantResult, found: PatchFile) -> None:
    """What was proved, how to apply it, and what has to be done by hand."""
    from perfdoctor.cli import output
    from perfdoctor.render.pages import trial_words
    from perfdoctor.trials.edits.patch_file import newer_files

    output.say(f"{result.variant.name}: {trial_words.told(result)}")
    for left in found.by_hand:
        output.say(f"by hand: {left.what}: {left.because}")
    newer = newer_files(trial, found)
    if newer:
        output.say(f"changed since the trial: {', '.join(newer)}", "look at the diff before you apply it")
    elsewhere = found.folder != os.getcwd()  # then a pipe to `git apply` from here would not find the files
    if found.diff and sys.stdout is not None and (sys.stdout.isatty() or elsewhere):
        again = f"perfdoctor patch {shlex.quote(os.path.abspath(trial.path))} | git apply"
        output.say("to apply it", f"cd {shlex.quote(found.folder)} && {again}")
    if not found.diff:
        output.say("nothing of it can be written as a diff")
