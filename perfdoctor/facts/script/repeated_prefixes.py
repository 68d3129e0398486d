"""Tells what generation takes that computes its prefix again for each token: RepeatedPrefixesFacts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.running_totals import latest
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase, StepFacts
from perfdoctor.wire.events.training import RepeatedPrefixesEvent

SETTING = "use_cache"
PART = 0.2  # of what such calls take: validation has at least so much where they belong to it


@dataclass(frozen=True)
class RepeatedPrefixesFacts:
    """Calls of a model without a loss, each on the input of the one before and one place more."""

    calls_per_run: float  # in a row
    longest: int  # places of an input
    share: float  # of the run from the first step to the last
    left: float  # of that share, what calls on one place each would take (0..1)
    pauses: bool  # it lies in validation, not in the steps
    generates: bool  # transformers' generate makes the calls
    at: tuple[Location, ...]  # the line that makes the calls, and its caller
    off: tuple[Location, ...] = ()  # lines that switch the cache off
    by_shapes: bool = False  # nobody compared most inputs with the ones before: they lie on a device

    @property
    def again(self) -> float:
        """The share of the run that computes prefixes again."""
        return self.share * (1.0 - self.left)


@fact
def repeated_prefixes_facts(
    totals: list[RepeatedPrefixesEvent], span: MeasuredSpan, step: StepFacts, sources: Sources
) -> RepeatedPrefixesFacts | None:
    """What such calls take, or None where there are none between the first step and the last."""
    seen = latest(totals, span)
    if seen is None or step.mean_s <= 0:
        return None
    last, steps = seen
    if not (last.runs and last.seconds > 0 and steps > 0):
        return None
    taken = last.seconds / steps / step.mean_s
    pauses = step.share(Phase.VALIDATION) >= PART * min(1.0, taken)  # else they are a rollout's
    # The last total may hold calls after the last step: no more than its phases have is in the steps.
    room = sum(map(step.share, (Phase.VALIDATION,) if pauses else (Phase.FORWARD, Phase.OTHER)))
    lines = tuple(at for line in last.lines if (at := location(line)) is not None)
    files = tuple(dict.fromkeys(at.file for at in lines))
    return RepeatedPrefixesFacts(
        calls_per_run=last.calls / last.runs,
        longest=last.longest,
        share=min(room, taken),
        left=min(1.0, last.left_s / last.seconds),
        pauses=pauses,
        generates=last.generates,
        at=tuple(shown for at in lines[:2] if (shown := sources.shown(at)) is not None),
        off=tuple(at for file in files for at in _off(sources, file)) if last.generates else (),
        by_shapes=2 * last.by_shapes > last.runs,
    )


def _off(sources: Sources, file: str) -> Iterator[Location]:
    """Lines that set `use_cache` to False: by keyword, or as an attribute."""
    tree = sources.file(file).tree
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.keyword):
            named = node.arg == SETTING
        elif isinstance(node, ast.Assign):
            named = any(isinstance(to, ast.Attribute) and to.attr == SETTING for to in node.targets)
        else:
            continue
        if named and isinstance(node.value, ast.Constant) and node.value.value is False:
            function = getattr(sources.file(file).scope(node.lineno), "name", "<module>")
            at = Location(file, node.lineno, function)
            yield sources.shown(at) or at
