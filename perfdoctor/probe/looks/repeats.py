"""Two calls of one module with the same arguments in one step: is one of them needless?

It is where both did the same. Where they differ by chance, as dropout makes them, both may be meant; then
hooks on the nodes of their results tell whether a backward went through one of them only. The hooks refer to
nothing of the script's, and have no effect on gradients.

Of attention a part may be needless: what it makes of keys and values that it was given before.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from ...wire.events.training import RepeatedCallEvent
from .. import patch
from ..containers import tensors_in

TENSORS_MAX = 1000  # in a result
TOLD_MAX = 20  # pairs of lines written down


class GraphUse:
    """Whether a backward goes through what a call, or one inside it, returned."""

    __slots__ = ("outer", "walked", "watched")

    def __init__(self, outer: Optional[GraphUse]) -> None:
        self.outer = outer
        self.walked = self.watched = False

    @property
    def in_vain(self) -> bool:
        """Whether there is a graph, and no backward has gone through it so far."""
        return self.watched and not self.walked

    def watch(self, tensor: type, result: Any) -> None:
        """Put hooks on the nodes that made a result, of tensors of this type."""
        hook = patch.guarded("graph_use", self._walk)
        for one in tensors_in(tensor, result, TENSORS_MAX):
            if one.grad_fn is not None:
                one.grad_fn.register_prehook(hook)
                self.watched = True

    def _walk(self, gradients: Any) -> None:
        use: Optional[GraphUse] = self
        while use is not None:
            use.walked = True
            use = use.outer


class Call:
    """One call under way, or one that is over and may come again."""

    __slots__ = (
        "alive",
        "begin",
        "inside",
        "key",
        "lines",
        "looked_from_ns",
        "looked_until_ns",
        "module_type",
        "ns",
        "recording",
        "shows",
        "state",
        "use",
        "versions",
        "weak_module",
    )

    def __init__(self, module: Any, versions: Any) -> None:
        self.weak_module = weakref.ref(module)  # the script may drop it before the look ends
        self.module_type = type(module).__name__
        self.versions = versions  # of the parameters of the outermost module
        self.key: Any = None
        self.alive: List[Any] = []  # weak references to the tensors it was given
        self.inside: List[CalledAgain] = []
        self.lines: List[Any] = []  # of the user's, innermost first
        self.recording = False
        self.use: Optional[GraphUse] = None  # of a module that was called again
        self.shows: Any = None  # some elements of what it returned
        self.state: Any = None
        self.begin = self.ns = 0
        # What looking had taken in all, when it began and when it ended: the difference is a part of `ns`.
        self.looked_from_ns = self.looked_until_ns = 0

    @property
    def module(self) -> Any:
        """What was called; None where it is gone."""
        return self.weak_module()

    @property
    def line(self) -> Any:
        """The innermost line of the user's."""
        return self.lines[0] if self.lines else None


class CalledAgain(NamedTuple):
    """Two calls of one module."""

    first: Call
    again: Call
    alike: bool  # both did the same
    projections: Optional[float] = None  # the part of `again` for keys and values, if only these are alike


def told(look: int, repeats: List[CalledAgain]) -> Iterator[RepeatedCallEvent]:
    """What was called in vain, by the lines of the two calls."""
    pairs: Dict[Any, List[CalledAgain]] = {}
    for first, again, alike, part in repeats:
        needed, needless = (again, first) if not alike and _is_walked(again) else (first, again)
        if alike or (_is_walked(needed) and needless.use is not None and needless.use.in_vain):
            same = pairs.setdefault((str(needed.line), str(needless.line), alike, part is not None), [])
            same.append(CalledAgain(needed, needless, alike, part))
    for same in list(pairs.values())[:TOLD_MAX]:
        needed, needless, alike, part = same[0]
        # one that is given what two others were given took its time once
        taken = {id(one.again): one.again.ns * (one.projections or 1) for one in same}
        yield RepeatedCallEvent(
            look=look,
            module=needless.module_type,
            count=len(same),
            seconds=sum(taken.values()) / 1e9,
            recording=all(one.first.recording and one.again.recording for one in same),
            first=needed.line,
            at=needless.line,
            by_chance=not alike,
            lines=needless.lines[: _apart(needless.lines, needed.lines)],
            inputs=len({id(one.first) for one in same}),
            walked=all(_is_walked(one.first) and _is_walked(one.again) for one in same),
            projections=part is not None,
        )


def _is_walked(call: Call) -> bool:
    return call.use is not None and call.use.walked


def _apart(lines: List[Any], others: List[Any]) -> int:
    """How many of the lines lead to this call alone; at least the innermost."""
    shared = 0
    for line, other in zip(reversed(lines), reversed(others)):
        if line != other:
            break
        shared += 1
    return max(1, len(lines) - shared)
