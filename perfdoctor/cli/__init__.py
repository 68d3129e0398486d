"""The command line: one thin file a verb. What a verb does is imported when it is called, not before."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

from perfdoctor.errors import PerfdoctorError
from perfdoctor.own_failures import contained

if TYPE_CHECKING:
    from perfdoctor.model.own_failure import OwnFailure


# New objects between looks for cycles: what a verb loads stays, and is looked through each time.
GARBAGE = 50_000
DEFECT = 70  # the exit status of a program that is broken: EX_SOFTWARE of sysexits.h
SYSTEMS = ("linux", "darwin")


def main() -> None:
    """The `perfdoctor` command."""
    gc.set_threshold(GARBAGE)
    from perfdoctor.cli import app, output

    output.accept_all_letters()
    failures: list[OwnFailure] = []
    try:
        _check_system()
        with contained(f"perfdoctor {' '.join(sys.argv[1:2])}", failures):
            app.start(sys.argv[1:])
    except PerfdoctorError as error:
        output.say(str(error), error.hint)
        sys.exit(error.exit_code)
    for failure in failures:
        from perfdoctor.cli import bug

        bug.tell(failure, sys.argv[1:])
        sys.exit(DEFECT)


def _check_system() -> None:
    """Raise PerfdoctorError where signals and process groups, by which a command is watched, do not exist."""
    if sys.platform not in SYSTEMS:
        raise PerfdoctorError(
            f"perfdoctor works on Linux and macOS, not on {sys.platform}",
            "on Windows, install it in WSL and start the training there",
        )
