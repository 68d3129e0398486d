"""What fails in perfdoctor itself: it costs the feature that it is in, and nothing else.

Beside the probe's own guard in the user's process, only the functions here catch everything. With STRICT in
the environment, as in our own tests, what fails in a report ends it instead.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.own_failure import OwnFailure

STRICT = "PERFDOCTOR_STRICT"
PACKAGE = Path(__file__).parent


def failure(feature: str, error: BaseException) -> OwnFailure:
    """What is kept of an error that cost a feature."""
    words = " ".join(str(error).split())
    told = f"{type(error).__name__}: {words}" if words else type(error).__name__
    trace = "".join(traceback.format_exception(error))
    return OwnFailure(feature, told + _place(error.__traceback__), trace)


def _place(raised: TracebackType | None) -> str:
    """The innermost line of ours, without this file's."""
    paths = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(raised)]
    ours = [(path, line) for path, line in paths if path.is_relative_to(PACKAGE) and path != Path(__file__)]
    if not ours:
        return ""
    path, line = ours[-1]
    return f" ({path.relative_to(PACKAGE.parent).as_posix()}:{line})"


@contextmanager
def guarded(tell: Callable[[str], object]) -> Iterator[None]:
    """Go on after what fails inside; `tell` gets the error in one line."""
    try:
        yield
    except Exception as error:
        tell(f"{type(error).__name__}: {error}")


@contextmanager
def contained(feature: str, failures: list[OwnFailure]) -> Iterator[None]:
    """Go on after what fails inside, with the failure in `failures`; what users are told anyway is raised."""
    try:
        yield
    except PerfdoctorError:
        raise
    except Exception as error:
        if os.environ.get(STRICT):
            raise
        failures.append(failure(feature, error))
