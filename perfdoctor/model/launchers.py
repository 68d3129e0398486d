"""The programs that start scripts and the ranks of a job: their names, how they are told the number."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfdoctor.model.dataclass import dataclass

PYTHON = re.compile(r"(python|pypy)[\d.]*t?(\.exe)?")  # names of interpreters
SCRIPT_SUFFIXES = (".py", ".pyc", ".pyw", ".pyz")
TORCHRUN_MODULE = ("-m", "torch.distributed.run")  # torchrun, by an interpreter of choice


@dataclass(frozen=True)
class Launcher:
    """A launcher and the words of a command that start it."""

    name: str
    starts: tuple[tuple[str, ...], ...]
    processes: tuple[str, ...] = ()  # options for the number on each host; the first one is written
    several_only: tuple[str, ...] = ()  # flags that it refuses with one process


LAUNCHERS = (
    Launcher(
        "torchrun",
        (("torchrun",), TORCHRUN_MODULE, ("-m", "torch.distributed.launch")),
        ("--nproc-per-node", "--nproc_per_node"),
    ),
    Launcher(
        "accelerate",
        (("accelerate", "launch"), ("-m", "accelerate.commands.launch")),
        ("--num_processes", "--num-processes"),
        ("--multi_gpu", "--multi-gpu"),
    ),
    Launcher("deepspeed", (("deepspeed",), ("-m", "deepspeed.launcher.runner")), ("--num_gpus",)),
    Launcher("mpirun", (("mpirun",),)),
    Launcher("mpiexec", (("mpiexec",),)),
    Launcher("srun", (("srun",),)),
)


def launcher_of(
    words: Sequence[str], launchers: Sequence[Launcher] = LAUNCHERS
) -> tuple[Launcher, int] | None:
    """The first launcher that a command starts, and where its options begin; None where there is none."""
    for place, word in enumerate(words):
        for launcher in launchers:
            for start in launcher.starts:
                end = place + len(start)
                if (word.rpartition("/")[2], *words[place + 1 : end]) == start:
                    return launcher, end
        if word.endswith(SCRIPT_SUFFIXES):  # what follows belongs to the script
            return None
    return None


def counting(launchers: Sequence[Launcher] = LAUNCHERS) -> tuple[Launcher, ...]:
    """Those that are told by an option how many processes to start on each host."""
    return tuple(launcher for launcher in launchers if launcher.processes)
