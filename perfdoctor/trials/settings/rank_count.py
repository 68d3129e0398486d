"""The command of a trial, started in another number of processes: `--ranks 1,2,4`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.launchers import PYTHON, SCRIPT_SUFFIXES, TORCHRUN_MODULE, counting, launcher_of
from perfdoctor.watch import command as commands

MANY_HOSTS = ("--nnodes", "--num_machines", "--num-machines", "--num_nodes")
ONE_HOST = ("1", "1:1")
OF_A_MODULE = ("-m", "--module")
GIVE_IT = "give its launcher: perfdoctor try --ranks 1,2 -- torchrun train.py"


def counts(typed: str) -> tuple[int, ...]:
    """The numbers of ranks that `1,2,4` means, the fewest first. Raises PerfdoctorError."""
    words = [word.strip() for word in typed.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) > 0 for word in words):
        hint = "separate them by commas: perfdoctor try --ranks 1,2,4"
        raise PerfdoctorError(f"--ranks {typed}: these are not numbers of ranks", hint)
    numbers = sorted({int(word) for word in words})
    if len(numbers) < 2:
        raise PerfdoctorError(
            f"--ranks {typed}: one number cannot be compared",
            f"add a number to compare with: perfdoctor try --ranks 1,{max(2, numbers[0])}",
        )
    return tuple(numbers)


def command(words: Sequence[str], ranks: int, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The words that run the command in so many processes of this host.

    The number of a launcher is replaced; a script or module is started by torch's own. Raises PerfdoctorError
    for what is neither, and for a launcher that is told of several hosts.
    """
    match = launcher_of(words, counting())
    if match is None:
        return _launched(commands.resolve(words, environ).argv, ranks)
    launcher, at = match
    options = _own(words, at)
    behind = words[at + len(options) :]
    _check_hosts(options)
    others = _without(options, launcher.processes)
    if ranks == 1:
        others = [word for word in others if word not in launcher.several_only]
    return (*words[:at], launcher.processes[0], str(ranks), *others, *behind)


def typed_commands(words: Sequence[str], numbers: Iterable[int]) -> dict[int, str]:
    """What one types to run the command, as it is stored, with each number of ranks.

    Empty where the programs of a trial of elsewhere are not here.
    """
    try:
        return {ranks: _typed(command(words, ranks, os.environ)) for ranks in numbers}
    except PerfdoctorError:
        return {}


def _typed(words: Sequence[str]) -> str:
    typed = list(words)
    if PYTHON.fullmatch(os.path.basename(typed[0])) and tuple(typed[1:3]) == TORCHRUN_MODULE:
        typed[:3] = ["torchrun"]
    return shlex.join(typed)


def _own(words: Sequence[str], at: int) -> list[str]:
    """The launcher's own words: all before the script or module that it starts."""
    options: list[str] = []
    for word in words[at:]:
        if word in OF_A_MODULE or word.endswith(SCRIPT_SUFFIXES):
            break
        options.append(word)
    return options


def _without(words: Sequence[str], flags: Sequence[str]) -> list[str]:
    """The words without these flags and their values."""
    others: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flag, equals, _ = word.partition("=")
        if flag not in flags:
            others.append(word)
        elif not equals and rest:
            rest.pop(0)
    return others


def _check_hosts(words: Sequence[str]) -> None:
    """Raise where the launcher is told of other hosts: they would be waited for."""
    for place, word in enumerate(words):
        flag, _, value = word.partition("=")
        value = value or next(iter(words[place + 1 : place + 2]), "")
        if flag in MANY_HOSTS and value not in ONE_HOST:
            raise PerfdoctorError(
                f"{flag} {value}: ranks are scaled on one host", f"leave {flag} out, and measure one host"
            )


def _launched(argv: Sequence[str], ranks: int) -> tuple[str, ...]:
    """A script's or module's command line, started by torch's launcher."""
    python, *words = argv
    if not PYTHON.fullmatch(os.path.basename(python)):
        raise PerfdoctorError(f"perfdoctor does not know how to give {python} the number of ranks", GIVE_IT)
    options: list[str] = []
    while words and words[0].startswith("-") and words[0] != "-m":
        options.append(words.pop(0))
        if options[-1] in commands.OPTIONS_WITH_VALUE and words:
            options.append(words.pop(0))
    if not words or "-c" in options or "-" in options:
        raise PerfdoctorError("only a script or a module can be started in several processes", GIVE_IT)
    return (python, *options, *TORCHRUN_MODULE, "--standalone", "--nproc-per-node", str(ranks), *words)
