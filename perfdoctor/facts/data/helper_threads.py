"""Measures what threads beside the training thread run of the user's code: pools and prefetchers."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from perfdoctor.facts.data.batch_stages import FETCH
from perfdoctor.facts.decode import Json
from perfdoctor.facts.host.line_costs import line_costs
from perfdoctor.facts.host.resources import OwnSamples, growth
from perfdoctor.facts.host.stacks import NO_STACKS, sampled_lines, threads
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.library_table import of_frame, of_statement, of_wait
from perfdoctor.facts.user_source.parse import Sources, calls
from perfdoctor.model.batch import Stage
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LineCost, Phase, StackFacts, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords

IN_PYTHON = {
    Stage.TRANSFORMING,
    Stage.COLLATING,
}  # other work is C code that lets further threads run, or waits
FEW = 10  # samples of those threads: fewer could be chance
RUNNING = 0.8  # threads that run Python at a time: fewer leave the interpreter to the training thread
ARRAYS = {"torch", "np", "numpy", "F"}  # what lets go of the interpreter while it works
NEVER = {"_pin_memory_loop", "_feed"}  # torch's and multiprocessing's own


@dataclass(frozen=True)
class HelperThreadFacts:
    """How many such threads run Python at a time, on average, and their lines.

    Only one thread of a process runs Python at a time: above 1.0, the others wait for the interpreter's lock.
    """

    running: float
    threads: int
    samples: int
    awaited: float  # of the training thread's time: inside a loader without workers, it waits for a thread
    blocked: float | None  # of the training thread's time: it neither ran, lacked a core, nor queued
    lines: tuple[
        LineCost, ...
    ]  # shares of what they run; costliest first, and lines of plain Python before others

    @property
    def busy(self) -> bool:
        """Whether they want the interpreter nearly all the time."""
        return self.samples >= FEW and self.running >= RUNNING


@fact
def helper_thread_facts(
    rank: RankRecords, sources: Sources, samples: OwnSamples
) -> HelperThreadFacts | Missing | None:
    """What the other threads of the training process run, or None where they run nothing of the user's."""
    if not rank.stacks:
        return NO_STACKS
    main = waiting = fetching = 0
    names: set[str] = set()
    lines: Counter[tuple[Frame, str | None, str | None]] = Counter()
    for thread, frames, count in threads(rank):
        if thread == "main":
            main += count
            waits = count if frames and of_wait(frames[-1]) else 0
            waiting += waits
            fetching += waits * any(FETCH.search(frame.file) for frame in frames)
        if not thread.startswith("thread ") or any(frame.name in NEVER for frame in frames):
            continue
        indices = [index for index, frame in enumerate(frames) if frame.owner is Owner.USER]
        if indices and _runs(frames[indices[-1]], frames[indices[-1] + 1 :], sources):
            names.add(thread)
            lines[
                frames[indices[-1]],
                frames[-1].function if indices[-1] + 1 < len(frames) else None,
                None,
            ] += count
    if not lines or not main:
        return None
    return HelperThreadFacts(
        running=lines.total() / main,
        threads=len(names),
        samples=lines.total(),
        awaited=fetching / main,
        blocked=_blocked(samples, waiting / main),
        lines=_holders_first(line_costs(lines, 1.0, sources), sources),
    )


def _holders_first(lines: Sequence[LineCost], sources: Sources) -> tuple[LineCost, ...]:
    """Lines of Python before calls of array libraries: those wait to get the interpreter back."""
    return tuple(sorted(lines, key=lambda line: _lets_go(sources.file(line.at.file).statement(line.at.line))))


def _lets_go(node: ast.stmt | None) -> bool:
    return node is not None and any(owner in ARRAYS for owner, _ in calls(node))


@fact
def stack_facts(
    rank: RankRecords, step: StepFacts, sources: Sources, work: HelperThreadFacts | Missing | None
) -> StackFacts | Missing:
    """What stack samples saw of the training thread's lines."""
    stacks = sampled_lines(rank, step, sources)
    return taken_from_threads(stacks, work) if isinstance(stacks, StackFacts) else stacks


def taken_from_threads(stacks: StackFacts, work: HelperThreadFacts | Missing | None) -> StackFacts:
    """The same lines; those that build batches out of what busy threads made are waits for them, too.

    A line such as `torch.stack(rows)` then spends its time on getting the interpreter back.
    """
    if not isinstance(work, HelperThreadFacts) or not work.busy:
        return stacks
    other = stacks.phases.get(Phase.OTHER, ())
    if not any(line.kind == "queue" for line in other):
        return stacks
    lines = tuple(replace(line, kind="queue") if line.kind == "data" else line for line in other)
    return replace(stacks, phases={**stacks.phases, Phase.OTHER: lines})


def _blocked(samples: Sequence[Json], waiting: float) -> float | None:
    """The share of its time that the training thread neither ran, nor lacked a core, nor queued."""
    ran, lacked = (growth(samples, f"thread_{name}_s", {"main"}) for name in ("cpu", "delay"))
    return None if ran is None or lacked is None else min(1.0, max(0.0, 1.0 - ran - lacked - waiting))


def _runs(user: Frame, beyond: tuple[Frame, ...], sources: Sources) -> bool:
    """Whether a stack that ends like this holds the interpreter, or wants it."""
    known = [work for frame in beyond if (work := of_frame(frame) or of_wait(frame))]
    if not beyond:
        work = of_statement(sources.file(user.file).statement(user.line))
        known = [work] if work else []
    return all(stage in IN_PYTHON for stage, _ in known)
