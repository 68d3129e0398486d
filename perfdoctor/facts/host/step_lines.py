"""Tells where the seconds of a step go, line by line of the user's code: StepLines."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from perfdoctor.facts.device.device import CopyFacts
from perfdoctor.facts.host.stack_costs import StackCost, StackCosts
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.library_table import library
from perfdoctor.facts.user_source.parse import Sources, calls
from perfdoctor.model.lines import LineSeconds, StepLines, WaitPart
from perfdoctor.model.measured import Phase, StepFacts, WindowFacts
from perfdoctor.model.missing import Missing
from perfdoctor.model.units import size
from perfdoctor.trace.results import CopySite

NAMED = 3  # functions and operators named for one line
WORTH_NAMING = 0.1  # of the line's samples
# Of torch's own, what only leads to what was meant: `model(x)` runs Conv2d.forward, not Module._call_impl.
PASSAGES = re.compile(
    r"torch[/\\](?:nn[/\\]modules[/\\](?:module|container)|utils[/\\](?:data[/\\].*|_contextlib)|optim[/\\]optimizer"
    r"|autograd[/\\]profiler|_ops|_tensor)\.py$|[/\\](?:contextlib|functools|threading)\.py$"
)
NO_TENSORS = frozenset("random math np numpy time".split())  # `random.random()` is no operator of torch's
WRAPPERS = frozenset("inner wrapper wrapped fn _fn _no_grad_wrapper decorate_context".split())

Key = tuple[str, int, Phase, WaitPart | None, bool]


@fact
def step_lines(
    costs: StackCosts,
    step: StepFacts,
    window: WindowFacts | Missing | None,
    copies: CopyFacts | Missing | None,
    sources: Sources,
) -> StepLines:
    """The step divided among the user's lines."""
    operators = [op.name for op in window.operators] if isinstance(window, WindowFacts) else []
    copied = _copied(copies.sites if isinstance(copies, CopyFacts) else ())
    at_line: dict[Key, list[StackCost]] = defaultdict(list)
    passing: dict[tuple[str, int, Phase], float] = defaultdict(float)
    for cost in costs.costs:
        line = cost.line
        at_line[line.file, line.line, cost.phase, cost.wait, cost.in_worker].append(cost)
        for file, number in {(frame.file, frame.line) for frame in (*cost.callers, *cost.path)}:
            passing[file, number, cost.phase] += cost.seconds
    lines = []
    for (file, number, phase, wait, in_worker), below in at_line.items():
        self_s = sum(cost.seconds for cost in below)
        at = sources.at(file, number, below[0].line.function)
        lines.append(
            LineSeconds(
                at=at,
                phase=phase,
                self_s=self_s,
                total_s=max(self_s, passing[file, number, phase]),
                share=self_s / step.mean_s if step.mean_s else 0.0,
                samples=sum(cost.samples for cost in below),
                wait=wait,
                in_worker=in_worker,
                runs=(*copied.get((file, number), ()), *runs(below, operators, sources))[:NAMED],
            )
        )
    ordered = sorted(lines, key=lambda line: (-line.self_s, line.at.file, line.at.line))
    return StepLines(costs.samples, tuple(ordered), costs.unseen_s)


def _copied(sites: Iterable[CopySite]) -> dict[tuple[str, int], list[str]]:
    """By line, the copies between host and device that it makes."""
    copied: dict[tuple[str, int], list[str]] = defaultdict(list)
    for site in sites:
        if site.at is not None and site.bytes and site.count:
            way = "to" if site.direction == "HtoD" else "from"
            copied[site.at.file, site.at.line].append(
                f"copies of {size(site.bytes / site.count)} {way} the device"
            )
    return copied


def runs(costs: Sequence[StackCost], operators: Iterable[str], sources: Sources) -> tuple[str, ...]:
    """What these stacks of one line run: functions of libraries that it calls, and operators of its own."""
    samples = sum(cost.samples for cost in costs)
    named: Counter[str] = Counter()
    for cost in costs:
        meant = called(cost.beyond)
        if meant is not None:
            named[f"{library(meant) or ''} {meant.function}".strip()] += cost.samples
    functions = [name for name, count in named.most_common(NAMED) if count >= WORTH_NAMING * samples]
    own = samples - named.total()
    node = sources.file(costs[0].line.file).statement(costs[0].line.line)
    called_on = calls(node) if node is not None else ()
    names = {name.rstrip("_") for owner, name in called_on if owner is not None and owner not in NO_TENSORS}
    known = [op for op in operators if op.removeprefix("aten::").strip("_") in names]
    return (*(known if own >= WORTH_NAMING * samples else ()), *functions)[:NAMED]


def called(beyond: Sequence[Frame]) -> Frame | None:
    """Of the library functions below a line, the one that says what it is about."""
    meant = [frame for frame in beyond if frame.name not in WRAPPERS and not PASSAGES.search(frame.file)]
    layers = [frame for frame in meant if frame.owner is Owner.TORCH and frame.name == "forward"]
    return layers[-1] if layers else next(iter(meant), None)
