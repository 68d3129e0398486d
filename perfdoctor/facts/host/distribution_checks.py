"""Tells what checking the arguments of distributions takes, line by line: DistributionCheckFacts."""

from __future__ import annotations

import re
from collections import defaultdict

from perfdoctor.facts.device.charged import attributed_shares
from perfdoctor.facts.device.device import DeviceFacts
from perfdoctor.facts.host.anchors import TORN
from perfdoctor.facts.host.stack_costs import StackCost, StackCosts
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LineCost, StepFacts
from perfdoctor.model.missing import Missing

DISTRIBUTION = re.compile(r"torch[/\\]distributions[/\\]distribution\.py$")
# What these two do without checks takes a microsecond. The arithmetic of distributions is in other files, and
# calls neither.
MAKING = "__init__"
CHECKS = frozenset({MAKING, "_validate_sample"})


@dataclass(frozen=True)
class DistributionCheckFacts:
    """Lines that have the arguments of distributions, or the values given to them, checked.

    Those that make a distribution come first, since they tell whether it checks; then the costliest. Shares
    are of the step, by stack samples, and of the checks alone.
    """

    lines: tuple[LineCost, ...]
    waited: float | None = None  # share of the step in which a device waits for its host; None: not known

    @property
    def share(self) -> float:
        """The share of the step that all checks take."""
        return min(1.0, sum(line.share for line in self.lines))

    @property
    def samples(self) -> int:
        """The stack samples that met a check."""
        return sum(line.samples for line in self.lines)


@fact
def distribution_check_facts(
    costs: StackCosts, step: StepFacts, sources: Sources, device: DeviceFacts | Missing | None = None
) -> DistributionCheckFacts | None:
    """The lines of torch.distributions' checks, or None where no sample met one."""
    at_line: dict[tuple[str, int], list[StackCost]] = defaultdict(list)
    for cost in costs.costs:
        if not cost.in_worker and any(_checks(frame) for frame in cost.beyond):
            at_line[cost.line.file, cost.line.line].append(cost)
    if not at_line or step.mean_s <= 0:
        return None
    every = [_line(found, step, sources) for found in at_line.values()]
    seen = sum(line.samples for line in every)
    lines = [line for line in every if line.samples >= TORN * seen]
    waited = attributed_shares(device)[Bottleneck.HOST] if isinstance(device, DeviceFacts) else None
    return DistributionCheckFacts(tuple(sorted(lines, key=_first)), waited)


def _checks(frame: Frame) -> bool:
    return frame.owner is Owner.TORCH and frame.name in CHECKS and DISTRIBUTION.search(frame.file) is not None


def _first(line: LineCost) -> tuple[bool, float]:
    return line.leaf != MAKING, -line.share


def _line(found: list[StackCost], step: StepFacts, sources: Sources) -> LineCost:
    line, frames = found[0].line, {frame.name for cost in found for frame in cost.beyond if _checks(frame)}
    return LineCost(
        sources.at(line.file, line.line, line.function),
        sum(cost.seconds for cost in found) / step.mean_s,
        sum(cost.samples for cost in found),
        MAKING if MAKING in frames else next(iter(frames)),
    )
