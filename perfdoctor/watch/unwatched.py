"""Notices interpreters that the probe did not reach, and says why and what to type instead.

Every interpreter that the probe reaches writes a line to `started.jsonl`, every one that imports torch one
to `boot.jsonl`. What is missing there was started with an option or an environment that drops the probe.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.launchers import PYTHON
from perfdoctor.redaction import redact
from perfdoctor.runs import json_text
from perfdoctor.runs.directory import PROBE, full_since
from perfdoctor.watch.command import OPTIONS_WITH_VALUE
from perfdoctor.watch.descendants import with_descendants
from perfdoctor.wire.names import BOOT, RUN_VARIABLE, STARTED

INJECT = str(Path(__file__).parents[1] / "probe" / "inject")
GRACE_S = 3.0  # an interpreter younger than this may not have come to its first line
SCRIPT_BYTES = 1 << 20  # a shell script longer than this is not read
SHOWN_CHARACTERS = 80  # of a command line in a note
LOOKS_S = (4.0, 10.0, 30.0)  # when to look for interpreters that the probe did not reach; later once a minute
LATER_LOOKS_S = 60.0
# torch starts it with a PYTHONPATH of its own
COMPILER = os.path.join("torch", "_inductor", "compile_worker", "__main__.py")
DROPPING = "EIS"  # interpreter options that ignore PYTHONPATH or sitecustomize


@dataclass(frozen=True)
class UnwatchedProcess:
    """An interpreter that runs without the probe."""

    argv: tuple[str, ...]
    why: str
    fix: str
    imported_torch: bool


class Lookout:
    """Looks now and then for interpreters that the probe did not reach."""

    def __init__(self, path: Path, pid: int, tell: Callable[[str], None]) -> None:
        self._path = path
        self._pid = pid
        self._tell = tell
        self._begin_s = time.monotonic()
        self._due_s = list(LOOKS_S)
        self.found: dict[int, UnwatchedProcess] = {}

    @property
    def pause_s(self) -> float:
        """How long until the next look."""
        return max(0.0, self._begin_s + self._due_s[0] - time.monotonic())

    def tick(self) -> None:
        """Look, if it is time; a training that goes unwatched is told at once."""
        if self.pause_s > 0:
            return
        due_s = self._due_s.pop(0)
        if not self._due_s:
            self._due_s.append(due_s + LATER_LOOKS_S)
        for pid, process in look(self._pid, self._path).items():
            if pid not in self.found and process.imported_torch:
                self._tell(note(process))
            self.found[pid] = process


def look(root_pid: int, run: Path) -> dict[int, UnwatchedProcess]:
    """The interpreters at and below `root_pid` that run without the probe, by process id."""
    if full_since(run) is not None:
        return {}  # whom the probe reached could not be written down
    reached = {entry.get("pid") for entry in json_text.objects(run / STARTED)}
    processes = {}
    for process in with_descendants(root_pid):
        try:
            if process.pid not in reached and (unwatched := _judge(process, run)):
                processes[process.pid] = unwatched
        except (psutil.Error, OSError):
            continue  # it ended while we looked, or is not ours to look at
    return processes


def notes(run: Path, command: Sequence[str], unwatched: Iterable[UnwatchedProcess]) -> list[str]:
    """What to tell the user about processes that were not watched: nothing, if all is well."""
    if full_since(run) is not None:
        return []
    booted = any(entry.get("event") == "boot" for entry in json_text.objects(run / BOOT))
    noteworthy = [entry for entry in unwatched if entry.imported_torch or not booted]
    if noteworthy:
        return list(dict.fromkeys(note(entry) for entry in noteworthy))
    if booted:
        return []
    if next(json_text.objects(run / STARTED), None) is not None:
        return ["the command ended before it imported torch"]
    why, fix = _suspect(command)
    return [f"no Python process could be watched: {why}; {fix}"]


def python_version(run: Path) -> str | None:
    """The version of the interpreter that imported torch first, else of the first that was reached."""
    for name in (BOOT, STARTED):
        for entry in json_text.objects(run / name):
            if "python" in entry:
                return str(entry["python"])
    return None


def note(unwatched: UnwatchedProcess) -> str:
    """One sentence: which interpreter was not watched, why, and what to type instead."""
    words = " ".join(redact.command(unwatched.argv))
    command = words if len(words) <= SHOWN_CHARACTERS else words[: SHOWN_CHARACTERS - 3] + "..."
    return f"`{command}` was not watched: {unwatched.why}; {unwatched.fix}"


def _judge(process: psutil.Process, run: Path) -> UnwatchedProcess | None:
    if os.geteuid() not in (0, process.uids().effective):
        return _judge_foreign(process)
    if not _is_old_python(process):
        return None
    argv = tuple(process.cmdline())
    if any(word.endswith(COMPILER) for word in argv[1:2]):
        return None
    reason = _reason(argv, process.environ(), run)
    return None if reason is None else UnwatchedProcess(argv, *reason, _maps_torch(process.pid))


def _is_old_python(process: psutil.Process) -> bool:
    if not PYTHON.fullmatch(os.path.basename(process.exe())):
        return False
    # A forked child, a loader worker say, runs no start-up code: its parent's line stands for both.
    parent = process.parent()
    forked = parent is not None and parent.cmdline() == process.cmdline()
    return not forked and time.time() - process.create_time() >= GRACE_S


def _judge_foreign(process: psutil.Process) -> UnwatchedProcess | None:
    """Of another user's process only the command line can be seen."""
    argv = tuple(process.cmdline())
    if not argv or not PYTHON.fullmatch(os.path.basename(argv[0])):
        return None
    return UnwatchedProcess(
        argv, *_because_of_environment("it runs as another user (sudo)"), imported_torch=False
    )


def _reason(argv: Sequence[str], environ: Mapping[str, str], run: Path) -> tuple[str, str] | None:
    option = _dropping_option(argv)
    if option:
        return _because_of_option(option)
    entries = environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(run / PROBE) in entries:
        return None  # it finds the run by the link
    if RUN_VARIABLE not in environ:
        return _because_of_environment("its environment was emptied (env -i, ssh, a container)")
    return None if INJECT in entries else _because_of_path("PYTHONPATH was replaced")


def _because_of_option(option: str) -> tuple[str, str]:
    return (f"Python's option {option} keeps the probe out", f"omit {option} while measuring")


def _because_of_environment(what: str) -> tuple[str, str]:
    return (what, "run perfdoctor inside it: ... perfdoctor run train.py")


def _because_of_path(what: str) -> tuple[str, str]:
    return (what, "extend it instead: export PYTHONPATH=src:$PYTHONPATH")


def _dropping_option(argv: Sequence[str]) -> str | None:
    """The option of a `python ...` command line that keeps the probe out."""
    words = iter(argv[1:])
    for word in words:
        if word in OPTIONS_WITH_VALUE:
            next(words, None)
        elif word.startswith(OPTIONS_WITH_VALUE):
            continue  # -Ximporttime: its value follows at once
        elif not re.fullmatch(r"-[A-Za-z]+", word):
            return None
        else:
            letters = re.split("[mc]", word[1:])[0]
            for letter in letters:
                if letter in DROPPING:
                    return f"-{letter}"
            if letters != word[1:]:
                return None
    return None


def _suspect(command: Sequence[str]) -> tuple[str, str]:
    """Without a process to look at: what in the command's words, or its shell script, drops the probe."""
    for index, word in enumerate(command):
        if PYTHON.fullmatch(os.path.basename(word)) and (option := _dropping_option(command[index:])):
            return _because_of_option(option)
    lines: list[tuple[str | None, str]] = [(None, " ".join(command))]
    lines += [(f"{word}:{number}", line) for word in command for number, line in _shell_lines(word)]
    for where, line in lines:
        reason = _suspect_line(line)
        if reason:
            why, fix = reason
            return (f"{where}: {why}" if where else why, fix)
    return (
        "the command runs no Python, or runs it with -I, -E or -S or in another environment",
        "run the script directly: perfdoctor run train.py",
    )


def _suspect_line(line: str) -> tuple[str, str] | None:
    if re.search(r"\benv\s+(-\w*i\w*\b|--ignore-environment|-\s)", line):
        return _because_of_environment("`env -i` empties the environment")
    if re.search(r"\bPYTHONPATH=(?!\S*\$\{?PYTHONPATH)", line) or re.search(r"\bunset\s+PYTHONPATH", line):
        return _because_of_path("PYTHONPATH is replaced")
    python = re.search(r"(\S*\bpython[\d.]*)((?:\s+-\w+)+)", line)
    if python and (option := _dropping_option([python[1], *python[2].split()])):
        return _because_of_option(option)
    return None


def _shell_lines(word: str) -> Iterator[tuple[int, str]]:
    try:
        if not word.endswith((".sh", ".bash", ".slurm", ".sbatch")) or os.path.getsize(word) > SCRIPT_BYTES:
            return
        with open(word, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if not line.lstrip().startswith("#"):
                    yield number, line
    except OSError:
        return


def _maps_torch(pid: int) -> bool:
    """Whether the process has torch's library loaded; only Linux can tell."""
    try:
        return "libtorch" in Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return False
