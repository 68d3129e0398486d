"""The lines of a folded-stack file: what frames are called, and how a stack and its count are written.

A file begins with a comment that names its sampler, and each part that was written at once ends with the
comment END: what follows the last one was cut off.
"""

from __future__ import annotations

from collections.abc import Iterable

END = "# end\n"
ENDS = "ends=1"  # in the first line of a file whose parts have ends


def header(source: str, rate_hz: float) -> str:
    """The first line: who took the samples, how many a second, idle threads as well, in ended parts."""
    return f"# source={source} rate_hz={rate_hz:g} idle=1 {ENDS}\n"


def folded(label: str, frames: Iterable[str], count: int) -> str:
    """One line of a folded-stack file; frames from the outermost in."""
    return f"{';'.join([label, *frames])} {count}\n"


def frame_text(function: str, file: str, line: int) -> str:
    """`function (file:line)`, without what separates frames and lines."""
    text = f"{short(function)} ({file}:{line})"
    return text.replace(";", ":").replace("\n", " ").replace("\r", " ")


def short(function: str) -> str:
    """A qualified name without the functions it was defined in."""
    return function.rpartition("<locals>.")[2]
