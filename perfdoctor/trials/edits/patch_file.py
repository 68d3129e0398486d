"""Writes what a trial proved as a unified diff of the user's files."""

from __future__ import annotations

import difflib
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.trial import Place, Setting, Trial, VariantResult
from perfdoctor.trials import trial_file
from perfdoctor.trials.edits import arguments, statements
from perfdoctor.trials.edits.script_text import ByHand, ScriptText, TextEdit
from perfdoctor.trials.settings import tweak_catalogue
from perfdoctor.tweaks import Argument, Around, Statement

NO_NEWLINE = "\\ No newline at end of file\n"
ALREADY = "already"  # what a tweak left alone since there was nothing to change
# What starts a module in place of `python -m`, and is given the script itself.
LAUNCHERS = frozenset(("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"))


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


@dataclass(frozen=True)
class _Written:
    """One change of one place, in a file."""

    setting: Setting
    place: Place
    file: str
    edits: Sequence[TextEdit]


def of_variant(trial: Trial, result: VariantResult) -> PatchFile:
    """What a variant of a trial changed, as a change of the files as they are now."""
    draft = _Draft(trial, result)
    for setting in result.variant.settings:
        draft.add(setting)
    return draft.patch_file()


def newer_files(trial: Trial, found: PatchFile) -> list[str]:
    """The files that were written to after the trial had ended, as named in the diff."""
    try:
        ended = (Path(trial.path) / trial_file.FILE).stat().st_mtime
        return [os.path.relpath(file, found.folder) for file in found.files if os.stat(file).st_mtime > ended]
    except OSError:
        return []


class _Draft:
    """What is to be written so far, and what cannot be."""

    def __init__(self, trial: Trial, result: VariantResult) -> None:
        self.trial = trial
        self.result = result
        self.scripts: dict[str, ScriptText] = {}
        self.written: list[_Written] = []
        self.by_hand: list[LeftToHand] = []
        self.refused: set[tuple[str, int]] = set()  # lines of which a change is left to a person

    def add(self, setting: Setting) -> None:
        """Write what a tweak changed, place by place."""
        ways = tweak_catalogue.declared(setting.tweak).edits
        places = _places(self.result, setting)
        at_lines = [place for place in places if place.at is not None]
        if at_lines and len({type(way) for way in ways}) > 1:
            places = at_lines  # what lines of the script set needs no statement besides
        for place in places:
            fitting = [way for way in ways if way.what is None or place.what.startswith(way.what)]
            try:
                if not fitting:
                    raise ByHand(f"see: perfdoctor try --list {setting.words[0]}")
                file, edits = self._edits(setting, place, fitting)
                self.written.append(_Written(setting, place, file, edits))
            except ByHand as reason:
                self._leave(setting, place, str(reason))

    def _leave(self, setting: Setting, place: Place, because: str) -> None:
        if place.at is not None:
            self.refused.add((place.at.file, place.at.line))
        self.by_hand.append(LeftToHand(setting.tweak, _said(place), because))

    def _edits(
        self, setting: Setting, place: Place, ways: Sequence[Argument | Around | Statement]
    ) -> tuple[str, Sequence[TextEdit]]:
        """The file and the edits by the first way that fits. Raises ByHand with the last one's reason."""
        statement = next((way for way in ways if isinstance(way, Statement)), None)
        if place.at is None or all(isinstance(way, Statement) for way in ways):
            if statement is None:
                raise ByHand("no line of the script asked for it")
            file = _main(self.trial)
            return file, statements.behind_imports(self._script(file), statement.written(place.now))
        file, line = os.path.realpath(place.at.file), place.at.line
        self._check_left_alone(setting, place.at.file, line)
        script, reason = self._script(file), ByHand("")
        lines = _lines_of(self.result, setting, place.at.file)
        for way in ways:
            try:
                if isinstance(way, Around):
                    return file, statements.around(script, line, way.context)
                if isinstance(way, Argument):
                    asked = arguments.Asked(way, place.now, self.trial.command, lines)
                    return file, arguments.set_at(script, line, asked)
            except ByHand as because:
                reason = because
        raise reason

    def _check_left_alone(self, setting: Setting, file: str, line: int) -> None:
        """Raise ByHand where the same line made something that the tweak left as it was."""
        for place in (place for execution in self.result.executions for place in execution.left_alone):
            here = place.at is not None and (place.at.file, place.at.line) == (file, line)
            if place.tweak == setting.tweak and here and ALREADY not in (place.because or ""):
                raise ByHand(f"line {line} makes one that was left alone, too: {place.because}")

    def _script(self, file: str) -> ScriptText:
        if file not in self.scripts:
            self.scripts[file] = ScriptText(Path(file))
        return self.scripts[file]

    def patch_file(self) -> PatchFile:
        """All that can be written: of a line, every change or none, as one may need the other."""
        edits: dict[str, list[TextEdit]] = defaultdict(list)
        for one in self.written:
            at = one.place.at
            together = at is not None and (at.file, at.line) in self.refused
            try:
                if together:
                    raise ByHand("it goes with the other change of this line")
                self.scripts[one.file].edited([*edits[one.file], *one.edits])
                edits[one.file] += one.edits
            except ByHand as reason:
                self.by_hand.append(LeftToHand(one.setting.tweak, _said(one.place), str(reason)))
        files = sorted(file for file, found in edits.items() if found)
        own = os.path.realpath(self.trial.cwd or os.getcwd())
        folder = os.path.commonpath([own, *map(os.path.dirname, files)])
        diffs = (_diff(self.scripts[file], self.scripts[file].edited(edits[file]), folder) for file in files)
        return PatchFile(folder, "".join(diffs), tuple(files), tuple(self.by_hand))


def _places(result: VariantResult, setting: Setting) -> list[Place]:
    """Where a tweak changed something, each once, with what it became in the last execution."""
    found: dict[tuple[object, ...], Place] = {}
    for place in (place for execution in result.executions for place in execution.applied):
        if place.tweak == setting.tweak:
            line = None if place.at is None else (place.at.file, place.at.line)
            found[place.what, line] = place
    return list(found.values())


def _lines_of(result: VariantResult, setting: Setting, file: str) -> Collection[int]:
    """The lines of a file at which a tweak changed something."""
    places = (place.at for place in _places(result, setting))
    return frozenset(at.line for at in places if at is not None and at.file == file)


def _main(trial: Trial) -> str:
    """The script that the command starts, be it by a launcher."""
    words = list(trial.command)
    for at, word in enumerate(words):
        if word == "-m" and words[at + 1 : at + 2] and words[at + 1] not in LAUNCHERS:
            break  # a module: what follows is its own
        path = os.path.realpath(os.path.join(trial.cwd, word))
        if word.endswith(".py") and os.path.isfile(path):
            return path
    raise ByHand("the command names no script")


def _said(place: Place) -> str:
    where = f"{os.path.basename(place.at.file)}:{place.at.line} " if place.at is not None else ""
    return f"{where}{place.what}"


def _diff(script: ScriptText, now: str, folder: str) -> str:
    """A unified diff, with the prefixes that git writes, and its tab behind names with a space."""
    name = os.path.relpath(script.path, folder).replace(os.sep, "/")
    ended = "\t" if " " in name else ""
    before, after = (_lines(text) for text in (script.text, now))
    lines = difflib.unified_diff(before, after, f"a/{name}{ended}", f"b/{name}{ended}")
    return "".join(_ended(lines))


def _lines(text: str) -> list[str]:
    """Its lines as `patch` counts them."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _ended(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}"
