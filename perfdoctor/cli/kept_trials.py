"""Trials that were kept: those of a run's command, and the one that the user means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfdoctor.model.concluded import Gain
    from perfdoctor.model.report import Report
    from perfdoctor.model.trial import Trial


def of_command(report: Report, out: str | None) -> Iterator[Trial]:
    """The trials of the run's command in the run's folder, newest first."""
    kept = folders(out, report.path)
    if not kept:
        return
    command = comparable_command(report.run.command)
    for trial in readable(kept, []):
        if trial.cwd == report.run.cwd and comparable_command(trial.command) == command:
            yield trial


def comparable_command(command: Sequence[str]) -> str:
    """A command without secrets and without the interpreter's path, by which the same one is known."""
    from perfdoctor.redaction import redact
    from perfdoctor.render.pages import trial_words

    return trial_words.command_as_typed(redact.command(command))


def ready(report: Report, out: str | None) -> Gain | None:
    """What the newest trial of the run's command measured on batches that are kept in memory."""
    for trial in of_command(report, out):
        for found in trial.verdicts:
            if _measures_data(found.variant.words) and found.speedup is not None:
                return found.speedup
    return None


def _measures_data(words: tuple[str, ...]) -> bool:
    """Whether a trial's words are the one tweak that measures what waiting for data costs."""
    from perfdoctor.trials.settings import tweak_catalogue

    return any(
        words == (tweak.flag,) and tweak_catalogue.declared(tweak.id).measures == "data"
        for tweak in tweak_catalogue.tweaks()
    )


def folders(out: str | None, run: str | None = None) -> list[Path]:
    """The folders of saved trials, those near a run too, newest first: their names begin with the time."""
    from perfdoctor.runs import directory
    from perfdoctor.trials import trial_file

    near = directory.beside(run, "trials") if run else []
    places = dict.fromkeys([*directory.places(out, "trials"), *near])
    kept = [path for place in places for path in place.glob(f"*/{trial_file.FILE}")]
    return sorted((path.parent for path in kept), key=lambda path: path.name, reverse=True)


def meant(name: str, kept: list[Path], out: str | None) -> Path:
    """The trial that the user means: a folder, or an id."""
    import shlex

    from perfdoctor.errors import PerfdoctorError

    for path in (Path(name), *(folder for folder in kept if folder.name == name)):
        if path.is_dir():
            return path
    hint = "list them with: perfdoctor report --trials" + (f" --out {shlex.quote(out)}" if out else "")
    raise PerfdoctorError(f"no trial called {name}", hint)


def named_or_newest(name: str | None, out: str | None) -> tuple[Trial, list[Trial], int]:
    """The trial that the user means, or the newest with those before it, and how many cannot be read.

    Raises PerfdoctorError where there is none.
    """
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.trials import trial_file

    kept = folders(out)
    if name is not None:
        return trial_file.read(meant(name, kept, out)), [], 0
    unread: list[Path] = []
    trials = list(readable(kept, unread))
    if not trials:
        damaged = f"no readable trial in {unread[0].parent}" if unread else "no trials yet"
        raise PerfdoctorError(damaged, "measure a change: perfdoctor try --list")
    return trials[0], trials[1:], len(unread)


def readable(kept: list[Path], unread: list[Path]) -> Iterator[Trial]:
    """Trials that can still be read; the folders of the others are left out, and added to `unread`."""
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.trials import trial_file

    for folder in kept:
        try:
            yield trial_file.read(folder)
        except PerfdoctorError:
            unread.append(folder)
