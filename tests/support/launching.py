"""Runs a command bare and under the launcher, so that a test can hold one against the other."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What `perfdoctor run` does, without options to parse and without samplers.
DRIVER = """
import sys
from perfdoctor.cli import output
from perfdoctor.watch import launch
from perfdoctor.watch.options import Options
from perfdoctor.errors import PerfdoctorError

class NoSamples:
    def stop(self):
        pass

try:
    outcome = launch.run(sys.argv[1:], Options(stacks=False), sample=lambda *run: NoSamples(), tell=output.say)
except PerfdoctorError as error:
    sys.stderr.write(f"perfdoctor: {error}\\n")
    sys.exit(error.exit_code)
launch.mirror(outcome)
"""
WATCHED = (sys.executable, "-c", DRIVER)
TIMEOUT_S = 60


@dataclass(frozen=True)
class Seen:
    """What a command showed to the outside."""

    status: int
    stdout: str
    stderr: str


def environment(**more: str) -> dict[str, str]:
    """The environment of the tests without what would choose another interpreter."""
    hidden = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PERFDOCTOR_RUN")
    return {name: value for name, value in os.environ.items() if name not in hidden} | more


def bare(cwd: Path, *words: str, env: Mapping[str, str] | None = None, **options: Any) -> Seen:
    """Run `words` as they are."""
    return _run(words, cwd, env, options)


def watched(cwd: Path, *words: str, env: Mapping[str, str] | None = None, **options: Any) -> Seen:
    """Run `words` as the words after `perfdoctor run`."""
    return _run((*WATCHED, *words), cwd, env, options)


def both(cwd: Path, *words: str, env: Mapping[str, str] | None = None, **options: Any) -> tuple[Seen, Seen]:
    """A Python command line without its `python`: bare under this interpreter, and watched."""
    return (
        bare(cwd, sys.executable, *words, env=env, **options),
        watched(cwd, *words, env=env, **options),
    )


def free_port() -> str:
    """A port of this machine at which nobody listens."""
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return str(any_port.getsockname()[1])


def runs(cwd: Path) -> list[Path]:
    """The run directories below a folder, oldest first."""
    return sorted((cwd / ".perfdoctor" / "runs").glob("*"))


def record(cwd: Path) -> dict[str, Any]:
    """run.json of the newest run."""
    value: dict[str, Any] = json.loads((runs(cwd)[-1] / "run.json").read_text())
    return value


def _run(words: tuple[str, ...], cwd: Path, env: Mapping[str, str] | None, options: dict[str, Any]) -> Seen:
    given = {"stdin": subprocess.DEVNULL} if "input" not in options and "stdin" not in options else {}
    done = subprocess.run(
        words,
        cwd=cwd,
        env=environment() if env is None else env,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
        **given,
        **options,
    )
    return Seen(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
