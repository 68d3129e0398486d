"""The command to try: the one given, or that of a saved run once more."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfdoctor.errors import CannotStart, NoSuchRun, PerfdoctorError
from perfdoctor.model.dataclass import dataclass

if TYPE_CHECKING:
    from perfdoctor.watch.command import Command

GIVE_IT = "give the command after --: perfdoctor try ... -- train.py"


@dataclass(frozen=True)
class Again:
    """What is to be run, and the run that tells what to expect of it."""

    command: tuple[str, ...]
    cwd: str | None = None  # None: here
    run: Path | None = None  # a run of this command as it is, without tweaks
    told: tuple[str, ...] = ()  # what the user should know before it starts


def given(words: tuple[str, ...], run: str | None) -> Again:
    """The command given, with the run asked for or the newest one of this command here, if there is any."""
    from perfdoctor.runs import directory, lookup

    chosen = _resolved(words)
    if chosen.name == "stdin":
        raise PerfdoctorError(
            "a script from stdin can be read only once", "save it to a file, and give the file's name"
        )
    path = _newest(chosen) if run is None else lookup.run_directory(run, None)
    if path is None:
        return Again(words)
    return _with_run(Again(words), path, directory.read_json(path / directory.RUN) or {}, chosen)


def _newest(chosen: Command) -> Path | None:
    """The newest run of a command in this folder, or None."""
    from perfdoctor.redaction import redact
    from perfdoctor.runs import directory

    def comparable(words: Sequence[str]) -> list[str]:
        return redact.command(_found(words))  # what is stored may have its secrets or not

    wanted = comparable(chosen.argv)
    for path, facts in (run for place in directory.places() for run in directory.kept(place).items()):
        words = facts.get("command")
        if (
            facts.get("cwd") == directory.working_folder()
            and isinstance(words, list)
            and comparable(words) == wanted
        ):
            return path
    return None


def _found(words: Sequence[str]) -> list[str]:
    """A command with its program as it is found, however it was typed: `python` is a file somewhere."""
    first, *others = words or [""]
    return [shutil.which(first) or first, *others]


def last(run: str | None) -> Again:
    """The command of the run asked for, or of the newest.

    Raises PerfdoctorError where there is none, or where it cannot be run again as it was.
    """
    from perfdoctor.runs import directory, lookup

    try:
        path = lookup.run_directory(run, None)
    except NoSuchRun as error:
        otherwise = directory.WATCH_FIRST if run is None else error.hint
        raise NoSuchRun(f"there is no command to try: {error}", f"{otherwise}; or {GIVE_IT}") from None
    facts = directory.read_json(path / directory.RUN) or {}
    words, cwd = _words(path, facts), _folder(path, facts)
    first = os.path.join(cwd, words[0]) if os.sep in words[0] else words[0]
    chosen = _resolved((first, *words[1:]))
    if chosen.name == "stdin":
        raise PerfdoctorError(f"the script of run {path.name} came from stdin and is not kept", GIVE_IT)
    if chosen.script is not None and not os.path.exists(os.path.join(cwd, chosen.script)):
        raise PerfdoctorError(f"the script of run {path.name} no longer exists: {chosen.script}", GIVE_IT)
    _check_nodes(path)
    return _with_run(Again(words, cwd), path, facts, chosen)


def option(run: str, later: bool = False) -> str:
    """What `perfdoctor try` needs for the command of a run: ` --run ID`; nothing where that is the newest.

    `later`: it is read when another run may be the newest, and in another folder.
    """
    from perfdoctor.render import text
    from perfdoctor.runs import directory, lookup

    def is_it(name: str | None) -> bool:
        with suppress(NoSuchRun):
            return os.path.realpath(lookup.run_directory(name, None)) == path
        return False

    path = os.path.realpath(run)
    if not later and is_it(None):
        return ""
    name = os.path.basename(path)
    told = name if is_it(name) else path if later else text.path(path, directory.working_folder())
    return f" --run {shlex.quote(told)}"


def _check_nodes(path: Path) -> None:
    """Raise PerfdoctorError where a launcher had started the command on several nodes."""
    from perfdoctor.runs import job as jobs

    job = jobs.join([path])
    if job.node_size and job.world > job.node_size:
        launcher = f"torchrun --nproc-per-node {job.node_size} train.py"
        raise PerfdoctorError(
            f"run {path.name} was one node of a job of {job.world:,} ranks: here it would wait for others",
            f"try it on one node: perfdoctor try ... -- {launcher}",
        )


def _resolved(words: Sequence[str]) -> Command:
    """What the words start. A command that cannot be started was mistyped: nothing has run yet."""
    from perfdoctor.watch import command

    try:
        return command.resolve(words, os.environ)
    except CannotStart as error:
        raise PerfdoctorError(str(error), error.hint) from None


def _words(path: Path, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """The run's command, if it was kept whole."""
    from perfdoctor.redaction import redact

    words = facts.get("command")
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise PerfdoctorError(f"run {path.name} does not record its command", GIVE_IT)
    if any(redact.REDACTED in word for word in words):
        raise PerfdoctorError(
            f"the command of run {path.name} contains what looks like a secret, which is not kept",
            f"{GIVE_IT}; perfdoctor run --keep-arguments keeps it",
        )
    return tuple(words)


def _folder(path: Path, facts: Mapping[str, Any]) -> str:
    cwd = facts.get("cwd")
    if not isinstance(cwd, str) or not os.path.isdir(cwd):
        raise PerfdoctorError(f"the working directory of run {path.name} no longer exists: {cwd}", GIVE_IT)
    return cwd


def _with_run(again: Again, path: Path, facts: Mapping[str, Any], chosen: Command) -> Again:
    """With the run, unless it was itself tweaked, and with what to say of a script that is another by now."""
    from perfdoctor.runs import job as jobs

    started_s = facts.get("started_epoch_s")
    told = [
        f"{name} has changed since run {path.name}: its findings may no longer hold"
        for name in _sources(chosen)
        if isinstance(started_s, (int, float)) and _written_s(again.cwd, name) > started_s
    ]
    job = jobs.join([path])
    part = bool(job.missing)
    if facts.get("tweaks"):
        told.append(f"run {path.name} had tweaks on: no gains are predicted from it")
    elif part:
        told.append(
            f"run {path.name} was part of a job of {job.world:,} ranks: no gains are predicted from it"
        )
    return Again(again.command, again.cwd, None if facts.get("tweaks") or part else path, tuple(told))


def _sources(chosen: Command) -> list[str]:
    """The files that a command names as its script, or the one that its module is likely to be."""
    if chosen.script is not None:
        return [chosen.script]
    named = [word for word in chosen.argv[1:] if word.endswith(".py")]
    return named or [f"{chosen.name.replace('.', os.sep)}.py"]


def _written_s(cwd: str | None, name: str) -> float:
    """When a file was last written, in seconds since 1970; 0 where there is none."""
    try:
        return os.stat(os.path.join(cwd or "", name)).st_mtime
    except OSError:
        return 0.0
