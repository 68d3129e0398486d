"""What the words after `perfdoctor run` start: a script, a module, or a command as typed."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from perfdoctor.errors import CannotStart, PerfdoctorError
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.launchers import PYTHON, SCRIPT_SUFFIXES

NOT_EXECUTABLE = 126  # what a shell answers
FIRST_LINE_BYTES = 256  # the kernel reads no more of it
OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")  # of the interpreter


@dataclass(frozen=True)
class Command:
    """A command ready to start."""

    argv: tuple[str, ...]
    name: str  # what the run is called: the script, module or program
    script: str | None = None  # the file that the interpreter is given, where it is given one

    @property
    def script_is_missing(self) -> bool:
        """Whether the interpreter is about to say that there is no such file."""
        return self.script is not None and not os.path.exists(self.script)

    @property
    def is_python(self) -> bool:
        """Whether an interpreter of Python runs it: named, or in the first line of what is named."""
        program = self.argv[0]
        if PYTHON.fullmatch(os.path.basename(program)):
            return True
        try:
            with open(shutil.which(program) or program, "rb") as file:
                return b"python" in file.readline(FIRST_LINE_BYTES)
        except OSError:
            return False


def resolve(words: Sequence[str], environ: Mapping[str, str]) -> Command:
    """Turn the user's words into a command, as `python` or a shell would read them.

    Raises CannotStart, with a shell's exit code, where there is nothing to start.
    """
    if not words or not words[0]:
        raise PerfdoctorError("no command given", "name a script: perfdoctor run train.py")
    first = words[0]
    if first.endswith(".ipynb"):
        hint = f"convert it first: jupyter nbconvert --to script {shlex.quote(first)}"
        raise PerfdoctorError("a notebook is not a script", hint)
    if first.startswith("-") or _is_python_code(first):
        argv = (interpreter(environ), *words)
    else:
        _check_program(first, environ)
        argv = tuple(words)
    script, name = _script_and_name(argv)
    return Command(argv, name, script)


def interpreter(environ: Mapping[str, str]) -> str:
    """The Python that a script gets: the active environment's, else perfdoctor's own.

    An active environment without torch gives way to one that has it: perfdoctor's may be called by its path.
    """
    active = [environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    pythons = [os.path.join(prefix, "bin", "python") for prefix in active if prefix]
    candidates = [python for python in pythons if os.access(python, os.X_OK)] + [sys.executable]
    with_torch = (python for python in candidates if _has_torch(python))
    return next(with_torch, candidates[0])


def cannot_start(program: str, error: OSError) -> CannotStart:
    """The sentence for a program that the system refused to start."""
    if error.errno == errno.ENOENT:
        return CannotStart(
            f"{program}: the interpreter in its first line does not exist", None, NOT_EXECUTABLE
        )
    hint = (
        f"name its interpreter: perfdoctor run bash {shlex.quote(program)}"
        if error.errno == errno.ENOEXEC
        else None
    )
    return CannotStart(f"{program}: {error.strerror}", hint, NOT_EXECUTABLE)


def _is_python_code(word: str) -> bool:
    if word.endswith(SCRIPT_SUFFIXES):
        return True
    if os.path.isdir(word):
        return os.path.exists(os.path.join(word, "__main__.py"))
    return os.path.isfile(word) and zipfile.is_zipfile(word)


def _check_program(word: str, environ: Mapping[str, str]) -> None:
    path = environ.get("PATH", os.defpath)
    if shutil.which(word, path=path) is not None:
        return
    here = os.path.join(".", word)
    if os.sep not in word:
        if os.path.isfile(here):
            raise CannotStart(
                f"{word} is not on the PATH", f"give its path: perfdoctor run {shlex.quote(here)}"
            )
        raise CannotStart(f"{word}: command not found", "name a script (train.py) or a command on the PATH")
    if os.path.isdir(word):
        raise CannotStart(f"{word} is a folder without a __main__.py", exit_code=NOT_EXECUTABLE)
    if os.path.exists(word):
        hint = f"start it with its interpreter: perfdoctor run python {shlex.quote(word)}"
        raise CannotStart(f"{word} is not executable", hint, NOT_EXECUTABLE)
    raise CannotStart(f"{word}: there is no such file", "check the path")


def _has_torch(python: str) -> bool:
    prefix = Path(sys.prefix) if python == sys.executable else Path(python).parent.parent
    return any(prefix.glob("lib/python3*/site-packages/torch/__init__.py"))


def _script_and_name(argv: Sequence[str]) -> tuple[str | None, str]:
    """The file that an interpreter is given, and what to call the run."""
    if not PYTHON.fullmatch(os.path.basename(argv[0])):
        scripts = [word for word in argv[1:] if word.endswith((".py", ".sh"))]
        return None, _stem(scripts[0] if scripts else argv[0])
    words = iter(argv[1:])
    for word in words:
        if word in OPTIONS_WITH_VALUE:
            next(words, None)
        elif word == "-":
            return None, "stdin"
        elif not word.startswith("-"):
            return word, _stem(word)
        elif word.startswith(OPTIONS_WITH_VALUE):
            continue  # -Ximporttime: its value follows at once
        elif code := re.fullmatch(r"-[A-Za-z]*?([mc])(.*)", word, re.DOTALL):
            return None, "code" if code[1] == "c" else code[2] or next(words, "module")
    return None, "python"


def _stem(path: str) -> str:
    return Path(path).resolve().stem if path in (".", "..") else Path(path).stem


def unprobed_environment() -> dict[str, str]:
    """The user's environment, in which no probe is asked for: for programs of our own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PERFDOCTOR_")}
