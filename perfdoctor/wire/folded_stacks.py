"""The lines of a folded-stack file: what frames are called, and how a stack and its count are written."""

from __future__ import annotations

from collections.abc import Iterable


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
