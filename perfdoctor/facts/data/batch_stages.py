"""Splits the cost of a batch into stages (reading, decoding, collating, ...) by stack samples: BatchFacts."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from perfdoctor.facts.data.called_back import CalledFunctions, UserFunction
from perfdoctor.facts.device.device import CopyFacts
from perfdoctor.facts.host.line_costs import line_costs
from perfdoctor.facts.host.outside_training import OutsideTraining
from perfdoctor.facts.host.stacks import NO_STACKS, threads, too_few_of
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.intervals import Intervals
from perfdoctor.facts.user_source.library_table import (
    COPY,
    SPARSE,
    LibraryWork,
    connects,
    library,
    lock_around,
    of_frame,
    of_statement,
    of_wait,
)
from perfdoctor.facts.user_source.parse import LOOPS, Listing, Sources, statements
from perfdoctor.facts.user_source.sparse_layouts import laid_out_at
from perfdoctor.model.batch import WAITED_FOR, BatchFacts, CalledBack, Stage, StageCost
from perfdoctor.model.measured import LineCost, LoaderFacts, Location, Phase, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords

FEW = 10  # samples of batches being prepared: fewer may all be of one slow batch
COPIED = 0.03  # share of the time that the device waits for copies to it: below it, no advice is about them
SHORT_LOOP = 8  # lines: a loop that is taken in at a glance is one piece of work, whichever line was sampled
FETCH = re.compile(r"torch[/\\]utils[/\\]data[/\\]_utils[/\\]fetch\.py$")
COLLATE = re.compile(r"torch[/\\]utils[/\\]data[/\\]_utils[/\\]collate\.py$")
QUEUE = re.compile(r"multiprocessing[/\\]queues\.py$")
UNPACKING = re.compile(r"[/\\]multiprocessing[/\\](?:reductions?|connection|resource_sharer)\.py$")
PATH = re.compile(r"[/\\]")  # what parts the names of a path
LAYOUTS = ("csc", "csr")  # in names of scipy's files

Lines = Counter[tuple[Frame, "str | None", "str | None"]]
PLAIN = (Stage.TRANSFORMING, "")  # nothing more is known of it
NOWHERE = Frame("", "", 0, Owner.LIBRARY)


@fact
def batch_facts(
    rank: RankRecords,
    step: StepFacts,
    loader: LoaderFacts,
    copies: CopyFacts | Missing | None,
    sources: Sources,
) -> BatchFacts | Missing | None:
    """What a batch of the training loader costs by stage; None where it is unknown and matters to nobody."""
    if not rank.stacks:
        return NO_STACKS
    stacks = list(prepared(rank, loader, sources))
    tally = _Tally(sources, CalledFunctions(stacks, sources))
    for inner, count in stacks:
        tally.add(inner, count)
    if tally.samples < FEW:
        copied = copies.waited_for if isinstance(copies, CopyFacts) else 0.0
        return too_few(tally.samples, copied >= COPIED or step.data_stall >= WAITED_FOR)
    costs = tally.costs(loader)
    return BatchFacts(
        batch_s=loader.batch_s,
        cpu_s=loader.batch_cpu_s,
        in_workers=bool(loader.num_workers),
        samples=tally.samples,
        costs=tuple(sorted(costs, key=lambda cost: -cost.share)),
        connecting=tally.connecting / tally.fetching if tally.fetching else 0.0,
        locked=line_costs(tally.locked, tally.locked.total() / tally.samples, tally.sources),
        transfer_s=_transfer_s(rank, step, loader, tally.samples),
        worker_start_s=loader.worker_start_s,
        called_back=tally.called_back(costs),
        laid_out_at=_laid_out_at(rank, stacks, sources),
    )


def _laid_out_at(
    rank: RankRecords, stacks: Iterable[tuple[Sequence[Frame], int]], sources: Sources
) -> Location | None:
    """Where the sparse matrix is made whose rows are gone through for a column, or the other way round."""
    crossed = {frame.file for inner, _ in stacks for frame in inner if of_frame(frame) == SPARSE}
    layouts = {layout for file in crossed for layout in LAYOUTS if layout in PATH.split(file)[-1]}
    if len(layouts) != 1:
        return None
    users = {frame.file for _, frames, _ in threads(rank) for frame in frames if frame.owner is Owner.USER}
    return laid_out_at(layouts.pop(), sorted(users), sources)


def prepared(
    rank: RankRecords, loader: LoaderFacts, sources: Sources
) -> Iterator[tuple[tuple[Frame, ...], int]]:
    """The stacks of batches being prepared, from the loader's fetch on inwards, with their samples.

    Those of a test after the training are told apart in the training process: what workers do has no place in
    the script.
    """
    every = list(threads(rank))
    here = [(frames, count) for label, frames, count in every if label == "main" and not loader.num_workers]
    outside = OutsideTraining(here, sources, Intervals(sources))
    for thread, frames, count in every:
        fetches = [index for index, frame in enumerate(frames) if FETCH.search(frame.file)]
        if fetches and prepares(thread, bool(loader.num_workers)) and not outside.holds(frames):
            yield frames[fetches[-1] + 1 :], count


def too_few(samples: int, matters: bool) -> Missing | None:
    """What is said where no more than these of batches being prepared were taken, if it matters."""
    return too_few_of("batch preparation", samples) if matters else None


def prepares(thread: str, workers: bool) -> bool:
    """Whether a thread is the one that prepares batches, in a worker or in the training process."""
    return thread.startswith("worker ") and " thread " not in thread if workers else thread == "main"


class _Tally:
    """Samples of batches being prepared, by what was done and by line."""

    def __init__(self, sources: Sources, functions: CalledFunctions) -> None:
        self.sources = sources
        self.functions = functions
        self.samples = self.connecting = self.fetching = 0
        self.seen: dict[tuple[LibraryWork, str | None], Lines] = defaultdict(Counter)
        self.locked: Lines = Counter()
        self.calling: Counter[tuple[Frame, UserFunction]] = Counter()  # a library at work for both

    def add(self, inner: Sequence[Frame], count: int) -> None:
        """Count a stack of a batch being prepared."""
        indices = [index for index, frame in enumerate(inner) if frame.owner is Owner.USER]
        beyond = inner[indices[-1] + 1 :] if indices else inner
        user = inner[indices[-1]] if indices else NOWHERE
        work, by = self._work(inner, user, beyond)
        self.samples += count
        self.seen[work, by][user, beyond[-1].function if beyond else None, None] += count
        called = self.functions.of(user, beyond) if work == PLAIN and user is not NOWHERE else None
        if called is not None:
            self.calling[user, called] += count
        if work[0] is Stage.FETCHING:
            self.fetching += count
            self.connecting += count * any(connects(frame) for frame in beyond)
        if work != (Stage.WAITING, "lock"):
            self._note_lock(inner, count)

    def _work(
        self, inner: Sequence[Frame], user: Frame, beyond: Sequence[Frame]
    ) -> tuple[LibraryWork, str | None]:
        """What is done, and the library that does it."""
        node = self.sources.file(user.file).statement(user.line) if user is not NOWHERE else None
        if any(collates(frame) for frame in inner):
            copied = not beyond and of_statement(node) == COPY
            return (Stage.COLLATING, "copy" if copied else ""), library(beyond[-1]) if beyond else None
        for frame in reversed(beyond):
            work = of_frame(frame)
            if work is not None:
                return work, library(frame)
        if beyond:
            return of_wait(beyond[-1]) or (Stage.TRANSFORMING, ""), library(beyond[-1])
        return of_statement(node) or (Stage.TRANSFORMING, ""), None

    def _note_lock(self, inner: Sequence[Frame], count: int) -> None:
        """Count the line inside a `with lock:` that this stack passes through."""
        for frame in inner:
            if frame.owner is Owner.USER and lock_around(self.sources.file(frame.file), frame.line):
                self.locked[frame, None, None] += count
                return

    def costs(self, loader: LoaderFacts) -> list[StageCost]:
        """A StageCost for each kind of work. Collating has its own clock: the rest is split by samples."""
        collated = sum(lines.total() for (work, _), lines in self.seen.items() if work[0] is Stage.COLLATING)
        collate = loader.collate_s / loader.batch_s if loader.batch_s > 0 else 0.0
        if collated in {0, self.samples}:  # too rare, or too much, for the stacks to show both
            collate = collated / self.samples
        stage_costs = []
        for ((stage, kind), by), lines in self.seen.items():
            collating = stage is Stage.COLLATING
            of = collate if collating else 1.0 - collate
            share = of * lines.total() / (collated if collating else self.samples - collated)
            costs = line_costs(lines, share, self.sources)
            stage_costs.append(StageCost(stage, kind, by, share, lines.total(), self._in_loops(stage, costs)))
        return stage_costs

    def called_back(self, costs: Iterable[StageCost]) -> tuple[CalledBack, ...]:
        """The functions for which a library was at work, costliest first."""
        one_sample = next(
            (cost.share / cost.samples for cost in costs if (cost.stage, cost.kind) == PLAIN), 0.0
        )
        return tuple(
            CalledBack(
                file,
                function,
                self.sources.at(user.file, user.line, user.function),
                count * one_sample,
            )
            for (user, (file, function)), count in self.calling.most_common()
        )

    def _in_loops(self, stage: Stage, costs: Iterable[LineCost]) -> tuple[LineCost, ...]:
        """The lines; those of one short loop of the user's Python are added up under the costliest."""
        together: dict[object, LineCost] = {}
        for cost in costs:
            if not cost.at.file:
                continue  # no line of the user's
            loop = None
            if stage in {Stage.TRANSFORMING, Stage.COLLATING} and cost.leaf is None:
                loop = short_loop(self.sources.file(cost.at.file), cost.at.line)
            key = (cost.at.file, cost.at.line) if loop is None else loop
            first = together.get(key)
            together[key] = (
                replace(first, share=first.share + cost.share, samples=first.samples + cost.samples)
                if first
                else cost
            )
        return tuple(sorted(together.values(), key=lambda cost: -cost.share))


def collates(frame: Frame) -> bool:
    """Torch's collate functions, or the probe's wrapper around the loader's."""
    return (frame.owner is Owner.PROBE and frame.name == "collate") or bool(COLLATE.search(frame.file))


def short_loop(listing: Listing, line: int) -> ast.stmt | None:
    """The innermost loop around a line, where it is a short one that yields nothing."""
    scope = listing.scope(line)
    around = [
        node
        for node in statements(scope.body if scope else [])
        if isinstance(node, LOOPS) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    if not around or (around[-1].end_lineno or 0) - around[-1].lineno >= SHORT_LOOP:
        return None
    yields = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(around[-1]))
    return None if yields else around[-1]


def _transfer_s(rank: RankRecords, step: StepFacts, loader: LoaderFacts, prepared: int) -> float:
    """Seconds per batch of packing it in the worker and of taking it out (and pinning it) again."""
    if not loader.num_workers:
        return 0.0
    packing = waiting = unpacking = 0
    for thread, frames, count in threads(rank):
        if not frames:
            continue
        if thread.startswith("worker ") and any(
            QUEUE.search(frame.file) and frame.name == "_feed" for frame in frames
        ):
            packing += 0 if _idles(frames) else count
        elif pins(frames):
            unpacking += count * hands_over(frames)
        elif thread == "main" and any(frame.phase is Phase.DATA_WAIT for frame in frames):
            waiting += count
            unpacking += count * unpacks(frames)
    packing_s = loader.batch_s * packing / prepared
    per_batch_s = (
        step.seconds.get(Phase.DATA_WAIT, 0.0) / loader.batches_per_step if loader.batches_per_step else 0.0
    )
    return packing_s + (per_batch_s * unpacking / waiting if waiting >= FEW else 0.0)


def pins(frames: Sequence[Frame]) -> bool:
    """Whether a stack is that of the thread that takes batches out of the workers' queue and pins them."""
    return any(frame.name == "_pin_memory_loop" for frame in frames)


def hands_over(frames: Sequence[Frame]) -> bool:
    """Whether that thread is at work, not waiting for a batch."""
    return not _idles(frames) and not polls(frames)


def _idles(frames: Sequence[Frame]) -> bool:
    return of_wait(frames[-1]) is not None and not UNPACKING.search(frames[-1].file)


def polls(frames: Sequence[Frame]) -> bool:
    """Whether the main process looks for a batch that is not there yet."""
    return any(frame.name in {"poll", "_poll", "select"} for frame in frames)


def unpacks(frames: Sequence[Frame]) -> bool:
    """Whether a batch is being taken out of the queue, not waited for."""
    if polls(frames):
        return False
    took = [index for index, frame in enumerate(frames) if QUEUE.search(frame.file) and frame.name == "get"]
    return bool(took) and (
        took[-1] + 1 == len(frames) or any(UNPACKING.search(frame.file) for frame in frames)
    )
