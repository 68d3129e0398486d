"""Picks out the time of a step that is not the arithmetic of layers: SuspectFacts.

What the user pays for are the model's own products, its loss and its update. Time elsewhere may be needed as
well, but it is worth a look: waits, Python, other libraries, and operators that sort, search or leave torch.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field

from perfdoctor.facts.data.batch_stages import short_loop
from perfdoctor.facts.device.device import DeviceFacts
from perfdoctor.facts.host.lines_together import LineOfPhase, lines_together
from perfdoctor.facts.host.stack_costs import TRAINER, StackCost, StackCosts
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.library_table import library
from perfdoctor.facts.user_source.parse import Listing, Sources, calls
from perfdoctor.facts.user_source.recurrences import recurs
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.lines import WaitPart
from perfdoctor.model.measured import GpuFacts, LoaderFacts, Location, Phase, RunFacts, StepFacts
from perfdoctor.model.missing import Missing

# Phases that compute: there only what is no arithmetic of layers is suspect. The others wait, copy or save.
COMPUTING = {Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.VALIDATION}
# What no layer is made of, by the names that a line calls: orders, searches, decompositions, sparse forms,
# Python.
NO_LAYERS = frozenset(
    "sort argsort msort sorted kthvalue unique unique_consecutive nonzero argwhere bincount histc histogram"
    " searchsorted bucketize isin masked_select svd svdvals eig eigh eigvals eigvalsh pinv lstsq matrix_exp"
    " coalesce to_sparse to_dense randperm deepcopy sleep".split()
)
# What takes values out of a tensor: on a device it waits for the work before it, and has no time of its own.
LEAVES = frozenset("item tolist numpy cpu".split())
# Libraries that compute without torch. Others (transformers, timm, ...) are made of layers.
APART = frozenset("numpy scipy pandas polars sklearn skimage PIL cv2 numba networkx".split())


Place = tuple[str, int]  # file, line


@dataclass(frozen=True)
class Suspect:
    """Time below one line that is not the arithmetic of layers."""

    phase: Phase
    path: tuple[Location, ...]  # lines of the user's from outside in; a short loop is one line
    share: float  # of the step
    samples: int
    kind: str | None = None  # as in StackCost
    callers: tuple[Location, ...] = ()  # lines of the user's around the step, or around the phase
    wait: WaitPart | None = None
    in_worker: bool = False

    @property
    def passes(self) -> tuple[Location, ...]:
        """All lines of the user's that its stacks pass through."""
        return self.callers + self.path


@dataclass(frozen=True)
class SuspectFacts:
    """All such time, costliest first."""

    suspects: tuple[Suspect, ...]
    room: float = 1.0  # the share of the step that can go: on a device, that in which it idles
    own_batches: float = 0.0  # share of the step in which the training thread prepares batches by itself
    together: Mapping[LineOfPhase, int] = field(default_factory=dict)  # as `lines_together` has them

    def first(self, phase: Phase, at: Location) -> int:
        """The first of the lines that one is a piece of work with, in a phase."""
        return self.together.get((phase, at.file, at.line), at.line)


@fact
def suspect_facts(
    costs: StackCosts,
    step: StepFacts,
    run: RunFacts,
    device: DeviceFacts | Missing | None,
    gpu: GpuFacts | Missing | None,
    loader: LoaderFacts | Missing | None,
    sources: Sources,
) -> SuspectFacts:
    """What of the step is worth a look."""
    found = [cost for cost in costs.costs if _is_suspect(cost, costs.anchors, sources, run.on_device)]
    heads = _loop_heads(found, costs.anchors, sources)
    suspects = [_suspect(cost, heads, step, sources) for cost in found]
    return SuspectFacts(
        tuple(sorted(suspects, key=lambda suspect: -suspect.share)),
        _room(device, gpu) if run.on_device else 1.0,
        _own_batches(loader, step.mean_s),
        lines_together(zip((one.path for one in suspects), found, strict=True), sources),
    )


def _own_batches(loader: LoaderFacts | Missing | None, step_s: float) -> float:
    """The share of a step in which the training thread prepares batches itself; none with workers."""
    if not isinstance(loader, LoaderFacts) or loader.num_workers or step_s <= 0:
        return 0.0
    return min(1.0, loader.batch_s * loader.batches_per_step / step_s)


def _suspect(cost: StackCost, heads: Mapping[Place, Frame], step: StepFacts, sources: Sources) -> Suspect:
    """The time of a stack; a line that only calls the phase, such as `model(x)`, is a caller."""
    calling = 1 if cost.kind is None and len(cost.path) > 1 else 0
    path = (*cost.path[calling:-1], heads.get((cost.line.file, cost.line.line), cost.line))
    return Suspect(
        cost.phase,
        _shown(path, sources),
        cost.seconds / step.mean_s if step.mean_s else 0.0,
        cost.samples,
        cost.kind,
        _shown((*cost.callers, *cost.path[:calling]), sources),
        cost.wait,
        cost.in_worker,
    )


def _shown(frames: Sequence[Frame], sources: Sources) -> tuple[Location, ...]:
    return tuple(sources.at(frame.file, frame.line, frame.function) for frame in frames)


def _room(device: DeviceFacts | Missing | None, gpu: GpuFacts | Missing | None) -> float:
    """The share of the step in which the device idles; none is known where nothing looked at it."""
    if isinstance(device, DeviceFacts):
        return min(1.0, sum(device.idle.values()))
    if isinstance(gpu, GpuFacts) and gpu.utilisation is not None:
        return min(1.0, max(0.0, 1.0 - gpu.utilisation))
    return 0.0


def _is_suspect(cost: StackCost, anchors: frozenset[Place], sources: Sources, on_device: bool) -> bool:
    if cost.phase is Phase.GRAD_SYNC or cost.kind == TRAINER:
        return False  # other ranks and the network, or a library: no line of the user's
    if any(frame.compiles for frame in cost.beyond):
        return False  # findings of their own tell what compiling takes
    if cost.phase is Phase.DATA_WAIT:
        return len(cost.path) > 1  # else no line of the user's is reached from the one that waits
    node = sources.file(cost.line.file).statement(cost.line.line)
    names = {name for _, name in calls(node)} if node is not None else set()
    if on_device and names & LEAVES:
        return False
    if cost.kind == "compute" or (cost.kind is None and cost.phase in COMPUTING):
        return _is_apart(cost, names, anchors, sources)
    return True


def _is_apart(cost: StackCost, names: set[str], anchors: frozenset[Place], sources: Sources) -> bool:
    """Whether time in a phase that computes is no arithmetic of layers."""
    if cost.beyond:
        last = cost.beyond[-1]
        return (
            last.is_standard
            or (last.owner is Owner.LIBRARY and library(last) in APART)
            or any(frame.name in NO_LAYERS for frame in cost.beyond)
        )
    if names & NO_LAYERS:
        return True
    turns = _turns(sources.file(cost.line.file), cost.line, anchors)
    return turns is not None and not recurs(turns, cost.line.line)


def _turns(listing: Listing, line: Frame, anchors: frozenset[Place]) -> ast.stmt | None:
    """The innermost loop around a line, or the comprehension on it; the training loop does not count."""
    trained = {number for file, number in anchors if file == line.file}
    around = [
        node
        for node in listing.loops(line.line)
        if not trained & set(range(node.lineno, (node.end_lineno or 0) + 1))
    ]
    return around[-1] if around else listing.comprehension(line.line)


def _loop_heads(
    costs: Sequence[StackCost], anchors: frozenset[Place], sources: Sources
) -> dict[Place, Frame]:
    """For each line of a short loop, the loop's costliest: together they are one piece of work."""
    loops: dict[Place, dict[Frame, float]] = defaultdict(lambda: defaultdict(float))
    for cost in costs:
        listing = sources.file(cost.line.file)
        loop = short_loop(listing, cost.line.line)
        if loop is not None and loop is _turns(listing, cost.line, anchors):
            loops[cost.line.file, loop.lineno][cost.line] += cost.seconds
    return {
        (line.file, line.line): max(lines, key=lambda one: lines[one])
        for lines in loops.values()
        for line in lines
    }
