"""Writes what a trial proved as a unified diff of the user's files."""

from __future__ import annotations

import difflib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.model.trial import Place, Setting, Trial, VariantResult
from perfdoctor.trials import trial_file
from perfdoctor.trials.edits import arguments, autocast, models, statements
from perfdoctor.trials.edits.arguments import Written
from perfdoctor.trials.edits.script_text import ByHand, ScriptText, TextEdit
from perfdoctor.trials.settings import tweak_catalogue
from perfdoctor.tweaks import Argument, Around, Autocast, Method, OfArgument, Statement

TOGETHER = "it goes with another change of this line"
LEFT_ALONE = "it makes one that was left alone, too"
ALREADY = "already"
NO_NEWLINE = "\\ No newline at end of file\n"
# What starts a module in place of `python -m`, and is given the script itself.
LAUNCHERS = frozenset(("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"))

Way = Argument | Around | Autocast | Method | OfArgument | Statement  # to write a change
AtLine = Argument | Around | Autocast | Method | OfArgument
ActsOn = tuple[str, int, tuple[str, ...]]  # a file, its line, and the tweak or the calls that it is about


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
class _PlaceEdits:
    """One place of a tweak's, the file that changes for it, and how."""

    setting: Setting
    place: Place
    file: str
    written: Written
    way: Way

    @property
    def acts_on(self) -> set[ActsOn]:
        """What it acts on."""
        at = self.place.at
        if at is None:
            return set()
        kinds = _kinds(self.setting.tweak, (self.way,))
        return {(at.file, line, kind) for line in (at.line, *self.written.lines) for kind in kinds}


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
        self.known = {tweak.id for tweak in tweak_catalogue.tweaks()}  # a trial may be older, or newer
        self.scripts: dict[str, ScriptText] = {}
        self.changes: list[_PlaceEdits] = []
        self.by_hand: list[LeftToHand] = []
        # What is left to a person, or was left alone by the same tweak; what is already so may become so.
        self.refused: dict[ActsOn, str] = {
            (place.at.file, place.at.line, (place.tweak,)): f"{LEFT_ALONE}: {place.because}"
            for execution in result.executions
            for place in execution.left_alone
            if place.at is not None and ALREADY not in (place.because or "").split()
        }

    def add(self, setting: Setting) -> None:
        """Write what a tweak changed, place by place."""
        ways = tweak_catalogue.declared(setting.tweak).edits if setting.tweak in self.known else ()
        for place in self._needed(_places(self.result, setting), ways):
            fitting = [way for way in ways if way.fits(place.what, place.now)]
            try:
                if not fitting:
                    raise ByHand(f"see: perfdoctor try --list {setting.words[0]}")
                self.changes.append(self._place_edits(setting, place, fitting))
            except ByHand as reason:
                self._leave(setting, place, str(reason), fitting)

    def _needed(self, places: Sequence[Place], ways: Sequence[Way]) -> Sequence[Place]:
        """Without what no line asked for, where a line of the script sets the same once and for all."""
        if not {Argument, Statement} <= {type(way) for way in ways}:
            return places
        lines = [place.at for place in places if place.at is not None]
        for_all = any(at.function == "<module>" for at in lines)
        return [place for place in places if place.at is not None] if for_all else places

    def _leave(self, setting: Setting, place: Place, because: str, ways: Sequence[Way]) -> None:
        if place.at is not None:
            for kind in _kinds(setting.tweak, ways):
                self.refused.setdefault((place.at.file, place.at.line, kind), TOGETHER)
        self.by_hand.append(LeftToHand(setting.tweak, _said(place), because))

    def _place_edits(self, setting: Setting, place: Place, ways: Sequence[Way]) -> _PlaceEdits:
        """The change by the first way that fits. Raises ByHand with the last one's reason."""
        reason = ByHand("no line of the script asked for it")
        for way in ways:
            try:
                if isinstance(way, Statement) and (place.at is None or len(ways) == 1):
                    file = _main(self.trial)
                    edits = statements.behind_imports(self._script(file), way, place.now)
                    return _PlaceEdits(setting, place, file, Written(tuple(edits), frozenset()), way)
                if place.at is not None and not isinstance(way, Statement):
                    return self._at_line(setting, place, place.at, way)
            except ByHand as because:
                reason = because
        raise reason

    def _at_line(self, setting: Setting, place: Place, at: Location, way: AtLine) -> _PlaceEdits:
        file = os.path.realpath(at.file)
        script = self._script(file)
        if not isinstance(way, Argument):
            if isinstance(way, Around):
                edits = statements.around(script, at.line, way.context)
            elif isinstance(way, Autocast):
                edits = autocast.under(script, at.line, place.what, way.context(place.now))
            elif isinstance(way, OfArgument):
                edits = models.on_argument(script, at.line, place.what, way.text)
            else:
                edits = models.behind_making(script, at.line, place.what, way.text)
            return _PlaceEdits(setting, place, file, Written(tuple(edits), frozenset()), way)
        places = _places(self.result, setting)
        lines = [each.at.line for each in places if each.at is not None and each.at.file == at.file]
        if len({repr(each.now) for each in places if each.at == at and each.what == place.what}) > 1:
            raise ByHand("it did not become the same each time")
        asked = arguments.Asked(way, place.now, self.trial.command, lines)
        return _PlaceEdits(setting, place, file, arguments.set_at(script, at.line, asked), way)

    def _script(self, file: str) -> ScriptText:
        if file not in self.scripts:
            self.scripts[file] = ScriptText(Path(file))
        return self.scripts[file]

    def patch_file(self) -> PatchFile:
        """All that can be written: of a tweak's changes of a line, and of a call's arguments, all or none."""
        while True:
            edits: dict[str, list[TextEdit]] = defaultdict(list)
            refused = next((one for one in self.changes if not self._adds(one, edits)), None)
            if refused is None:
                break
            self.changes.remove(refused)
        files = sorted(edits)
        own = os.path.realpath(self.trial.cwd or os.getcwd())
        folder = os.path.commonpath([own, *map(os.path.dirname, files)])
        diffs = (_diff(self.scripts[file], self.scripts[file].edited(edits[file]), folder) for file in files)
        return PatchFile(folder, "".join(diffs), tuple(files), tuple(self.by_hand))

    def _adds(self, one: _PlaceEdits, edits: dict[str, list[TextEdit]]) -> bool:
        """Whether a change can be made beside those before it; what cannot is left to a person."""
        because = next((self.refused[each] for each in sorted(one.acts_on) if each in self.refused), None)
        try:
            if because is not None:
                raise ByHand(because)
            self.scripts[one.file].edited([*edits[one.file], *one.written.edits])
        except ByHand as reason:
            self._leave(one.setting, one.place, str(reason), (one.way,))
            return False
        edits[one.file] += one.written.edits
        return True


def _kinds(tweak: str, ways: Sequence[Way]) -> set[tuple[str, ...]]:
    """The changes of a line that go together: a tweak's own, and those of the arguments of the same calls."""
    return {(tweak,), *(way.calls for way in ways if isinstance(way, Argument) and way.calls)}


def _places(result: VariantResult, setting: Setting) -> list[Place]:
    """Where a tweak changed something, and to what: each once."""
    found = {
        (place.what, place.at and (place.at.file, place.at.line), repr(place.now)): place
        for execution in result.executions
        for place in execution.applied
        if place.tweak == setting.tweak
    }
    return list(found.values())


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
