"""Writes what a trial proved as a unified diff of the user's files."""

from __future__ import annotations

import difflib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.trial import Place, Setting, Trial, VariantResult
from perfdoctor.trials import trial_file
from perfdoctor.trials.edits import arguments, statements
from perfdoctor.trials.edits.script_text import ByHand, ScriptText, TextEdit
from perfdoctor.trials.settings import tweak_catalogue
from perfdoctor.tweaks import Argument, Around, Statement

NO_NEWLINE = "\\ No newline at end of file\n"


@dataclass(frozen=True)
class LeftToHand:
    """A change of a trial's that a diff does not hold, where it was made, and why it is left to a person."""

    tweak: str
    what: str
    because: str


@dataclass(frozen=True)
class PatchFile:
    """A diff for `git apply` and `patch -p1` in a folder, and what it leaves to a person.

    The folder is that of the command, or one above it where a file lies beside it.
    """

    folder: str
    diff: str  # empty where nothing can be written
    files: tuple[str, ...]
    by_hand: tuple[LeftToHand, ...]


def of_variant(trial: Trial, result: VariantResult) -> PatchFile:
    """What a variant of a trial changed, as a change of the files as they are now."""
    scripts: dict[str, ScriptText] = {}
    edits: dict[str, list[TextEdit]] = defaultdict(list)
    by_hand: list[LeftToHand] = []
    for setting in result.variant.settings:
        try:
            for file, found in _of_setting(trial, setting, _places(result, setting), scripts, by_hand):
                edits[file] += found
        except ByHand as reason:
            by_hand.append(LeftToHand(setting.tweak, " ".join(setting.words), str(reason)))
    folder = os.path.commonpath([trial.cwd or os.getcwd(), *map(os.path.dirname, edits)])
    diffs = {}
    for file, found in sorted(edits.items()):
        try:
            diffs[file] = _diff(scripts[file], scripts[file].edited(found), folder)
        except ByHand as reason:
            by_hand.append(LeftToHand("", os.path.relpath(file, folder), str(reason)))
    return PatchFile(folder, "".join(diffs.values()), tuple(diffs), tuple(by_hand))


def newer_files(trial: Trial, found: PatchFile) -> list[str]:
    """The files that were written to after the trial had ended, as named in the diff."""
    try:
        ended = (Path(trial.path) / trial_file.FILE).stat().st_mtime
        return [os.path.relpath(file, found.folder) for file in found.files if os.stat(file).st_mtime > ended]
    except OSError:
        return []


def _places(result: VariantResult, setting: Setting) -> list[Place]:
    """Where a tweak changed something, each once, with what it became in the last execution."""
    found: dict[tuple[object, ...], Place] = {}
    for place in (place for execution in result.executions for place in execution.applied):
        if place.tweak == setting.tweak:
            line = None if place.at is None else (place.at.file, place.at.line)
            found[place.what, line] = place
    return list(found.values())


def _of_setting(
    trial: Trial,
    setting: Setting,
    places: Sequence[Place],
    scripts: dict[str, ScriptText],
    by_hand: list[LeftToHand],
) -> Iterator[tuple[str, list[TextEdit]]]:
    """The edits of one tweak, by file; what one of its places needs by hand is noted, the rest goes on."""
    ways = tweak_catalogue.declared(setting.tweak).edits
    at_lines = [place for place in places if place.at is not None]
    if at_lines and any(isinstance(way, Argument) for way in ways):
        places = at_lines  # what lines of the script set needs no statement besides
    for place in places:
        fitting = [way for way in ways if way.what is None or place.what.startswith(way.what)]
        try:
            if not fitting:
                raise ByHand(f"see: perfdoctor try --list {setting.words[0]}")
            yield _of_place(trial, place, fitting, scripts)
        except ByHand as reason:
            by_hand.append(LeftToHand(setting.tweak, _said(place), str(reason)))


def _of_place(
    trial: Trial, place: Place, ways: Sequence[Argument | Around | Statement], scripts: dict[str, ScriptText]
) -> tuple[str, list[TextEdit]]:
    """The file and the edits by the first way that fits. Raises ByHand with the reason of the last one."""
    reason = ByHand("no way to write it is known")
    for way in ways:
        try:
            if isinstance(way, Statement):
                file = _main(trial)
                return file, statements.behind_imports(_script(file, scripts), way.written(place.now))
            if place.at is not None:
                file, line = place.at.file, place.at.line
                script = _script(file, scripts)
                if isinstance(way, Around):
                    return file, statements.around(script, line, way.context)
                return file, arguments.set_at(script, line, way, place.now, trial.command)
        except ByHand as because:
            reason = because
    raise reason


def _script(file: str, scripts: dict[str, ScriptText]) -> ScriptText:
    if file not in scripts:
        scripts[file] = ScriptText(Path(file))
    return scripts[file]


def _main(trial: Trial) -> str:
    """The script that the command starts, be it by a launcher."""
    words = [word for word in trial.command if word.endswith(".py")]
    for word in words:
        path = os.path.normpath(os.path.join(trial.cwd, word))
        if os.path.isfile(path):
            return path
    raise ByHand("the command names no script")


def _said(place: Place) -> str:
    where = f"{os.path.basename(place.at.file)}:{place.at.line} " if place.at is not None else ""
    return f"{where}{place.what}"


def _diff(script: ScriptText, now: str, folder: str) -> str:
    """A unified diff, with the prefixes that git writes."""
    name = os.path.relpath(script.path, folder).replace(os.sep, "/")
    before, after = (_lines(text) for text in (script.text, now))
    return "".join(_ended(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")))


def _lines(text: str) -> list[str]:
    """Its lines as `patch` counts them."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _ended(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}"
