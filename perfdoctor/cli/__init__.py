"""The command line: one thin file a verb. What a verb does is imported when it is called, not before."""

from __future__ import annotations

import sys

from perfdoctor.errors import PerfdoctorError


def main() -> None:
    """The `perfdoctor` command."""
    from perfdoctor.cli import app, output

    output.accept_all_letters()
    try:
        app.start(sys.argv[1:])
    except PerfdoctorError as error:
        output.say(str(error), error.hint)
        sys.exit(error.exit_code)
