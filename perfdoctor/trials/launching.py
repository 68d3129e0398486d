"""The command of a trial, started in another number of processes: `--ranks 1,2,4`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfdoctor import command as commands
from perfdoctor.errors import PerfdoctorError

MANY_HOSTS = ("--nnodes", "--num_machines", "--num-machines", "--num_nodes")
ONE_HOST = ("1", "1:1")
OF_A_MODULE = ("-m", "--module")
TORCHRUN = ("-m", "torch.distributed.run")  # by the script's own interpreter: it is on no PATH
GIVE_IT = "give its launcher: perfdoctor try --ranks 1,2 -- torchrun train.py"


@dataclass(frozen=True)
class Launcher:
    """How a launcher is told the number of processes; the first spelling is the one that is written."""

    numbers: tuple[str, ...]
    behind: tuple[str, ...] = ()  # words that belong to its name
    several: tuple[str, ...] = ()  # flags that it refuses with one process


LAUNCHERS: Mapping[str, Launcher] = {
    "torchrun": Launcher(("--nproc-per-node", "--nproc_per_node")),
    "accelerate": Launcher(
        ("--num_processes", "--num-processes"), ("launch",), ("--multi_gpu", "--multi-gpu")
    ),
    "deepspeed": Launcher(("--num_gpus",)),
}
MODULES: Mapping[str, Launcher] = {
    "torch.distributed.run": LAUNCHERS["torchrun"],
    "torch.distributed.launch": LAUNCHERS["torchrun"],
    "accelerate.commands.launch": Launcher(
        LAUNCHERS["accelerate"].numbers, (), LAUNCHERS["accelerate"].several
    ),
    "deepspeed.launcher.runner": LAUNCHERS["deepspeed"],
}


def counts(typed: str) -> tuple[int, ...]:
    """The numbers of ranks that `1,2,4` means, the fewest first. Raises PerfdoctorError."""
    words = [word.strip() for word in typed.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) > 0 for word in words):
        hint = "separate them by commas: perfdoctor try --ranks 1,2,4"
        raise PerfdoctorError(f"--ranks {typed}: these are no numbers of ranks", hint)
    found = sorted({int(word) for word in words})
    if len(found) < 2:
        raise PerfdoctorError(
            f"--ranks {typed}: one number has nothing to be compared with",
            f"name the one to compare with, too: perfdoctor try --ranks 1,{max(2, found[0])}",
        )
    return tuple(found)


def command(words: Sequence[str], ranks: int, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The words that run the command in so many processes of this host.

    The number of a launcher is replaced; a script or module is started by torch's own. Raises PerfdoctorError
    for what is neither, and for a launcher that is told of several hosts.
    """
    found = _launcher(words)
    if found is None:
        return _launched(commands.resolve(words, environ).argv, ranks)
    launcher, at = found
    own = _own(words, at)
    behind = words[at + len(own) :]
    _check_hosts(own)
    kept = _without(own, launcher.numbers)
    if ranks == 1:
        kept = [word for word in kept if word not in launcher.several]
    return (*words[:at], launcher.numbers[0], str(ranks), *kept, *behind)


def _launcher(words: Sequence[str]) -> tuple[Launcher, int] | None:
    """The launcher among the words, and where its options begin."""
    for place, word in enumerate(words):
        at = place + 1
        found = LAUNCHERS.get(os.path.basename(word)) or (
            MODULES.get(word) if place and words[place - 1] == "-m" else None
        )
        if found is not None and tuple(words[at : at + len(found.behind)]) == found.behind:
            return found, at + len(found.behind)
        if word.endswith(commands.SCRIPT_SUFFIXES):  # what follows belongs to the script
            return None
    return None


def _own(words: Sequence[str], at: int) -> list[str]:
    """The launcher's own words: all before the script or module that it starts."""
    own: list[str] = []
    for word in words[at:]:
        if word in OF_A_MODULE or word.endswith(commands.SCRIPT_SUFFIXES):
            break
        own.append(word)
    return own


def _without(words: Sequence[str], flags: Sequence[str]) -> list[str]:
    """The words without these flags and their values."""
    kept: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        flag, equals, _ = word.partition("=")
        if flag not in flags:
            kept.append(word)
        elif not equals and left:
            left.pop(0)
    return kept


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
    if not commands.PYTHON.fullmatch(os.path.basename(python)):
        raise PerfdoctorError(f"it is not known how {python} is told the number of ranks", GIVE_IT)
    own: list[str] = []
    while words and words[0].startswith("-") and words[0] != "-m":
        own.append(words.pop(0))
        if own[-1] in commands.OPTIONS_WITH_VALUE and words:
            own.append(words.pop(0))
    if not words or "-c" in own or "-" in own:
        raise PerfdoctorError("only a script or a module can be started in several processes", GIVE_IT)
    return (python, *own, *TORCHRUN, "--standalone", "--nproc-per-node", str(ranks), *words)
