"""Events of torch.compile: what it compiled, how often, and where it had to stop."""

from __future__ import annotations

from . import Event, Line


class CompileCallEvent(Event, name="compile_call"):
    """A line of the script calls torch.compile for the first time."""

    at: Line


class CompiledEvent(Event, name="compiled"):
    """One compilation, or the last one that was refused, by torch's own account."""

    code: str | None  # which piece of code, by torch's number for it
    name: str | None  # of its function
    function: Line | None  # where that is defined, if the script does it
    begin_ns: int
    seconds: float
    kept_s: float  # of these, what the next start finds in the compiler's cache on disk
    again: bool  # the same piece of code had been compiled before
    backward: bool  # of its backward, compiled when that ran first
    given_up: bool  # too often: nothing was compiled, and from here on it runs as it is written
    broken: str | None  # what had been taken for constant and changed, without its values
    broken_at: Line | None  # the line that has it taken for constant


class GraphBreakEvent(Event, name="graph_break"):
    """Running count of a place at which a graph ends in the middle of the code."""

    count: int  # once for each compilation of it
    reason: str  # in torch's words
    at: Line | None
