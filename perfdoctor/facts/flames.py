"""Adds stack samples up into the trees that the HTML report draws: Flame."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from perfdoctor.facts.call_tree import CallTree, Key, key_of, laid_out
from perfdoctor.facts.recorded import recorded_stacks, sample_s
from perfdoctor.facts.stack_states import state_of
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.flame import Flame, FlameFrame, ThreadUse
from perfdoctor.model.measured import Phase
from perfdoctor.model.recorded import RecordedStack
from perfdoctor.runs.types import RankRecords, RunRecords

MOST_FRAMES, MOST_OF_OTHERS = 400, 200  # the narrowest of more are folded: a file stays small
MOST_THREADS = 12  # of a table; those that were sampled most
MAIN, WORKERS, OTHERS = "Training process", "Loader workers", "Threads beside them"


def sampled_rank(records: RunRecords, rank: int | None) -> RankRecords | None:
    """The rank that trained; without one, the lowest."""
    return records.ranks.get(min(records.ranks, default=0) if rank is None else rank)


def working_folder(records: RunRecords) -> str:
    """The one that the run was started in."""
    return str(records.run.get("cwd") or "")


def flames(
    records: RunRecords, rank: int | None, sources: Sources, seconds: Mapping[Phase, float]
) -> tuple[Flame, ...]:
    """Trees of the rank's training thread by phase, its loader workers, and other threads by name.

    `seconds`: of a step by phase, as the timers tell.
    """
    own = sampled_rank(records, rank)
    if own is None:
        return ()
    cwd = working_folder(records)
    trees: dict[str, CallTree] = defaultdict(CallTree)
    for stack in recorded_stacks(own, seconds):
        group = group_of(stack)
        frames = [key_of(name, cwd) for name in stack.frames]
        trees[group].add((*above(group, stack), *frames), {state_of(stack, sources): stack.samples})
    return tuple(
        Flame(group, int(_all(trees[group].amounts)), sample_s(own), tuple(_frames(trees[group], most)))
        for group, most in ((MAIN, MOST_FRAMES), (WORKERS, MOST_OF_OTHERS), (OTHERS, MOST_OF_OTHERS))
        if group in trees
    )


def thread_uses(
    records: RunRecords, rank: int | None, sources: Sources, seconds: Mapping[Phase, float]
) -> tuple[ThreadUse, ...]:
    """What the rank's threads were at, the training thread first, then those that were sampled most."""
    own = sampled_rank(records, rank)
    states: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for stack in recorded_stacks(own, seconds) if own is not None else ():
        group = group_of(stack)
        name = _thread_name(stack) if group == OTHERS else group.lower()
        states[group, name][state_of(stack, sources)] += stack.samples
    order = [MAIN, WORKERS, OTHERS]
    rows = sorted(states.items(), key=lambda row: (order.index(row[0][0]), -row[1].total(), row[0][1]))
    return tuple(
        ThreadUse(name, seen.total(), seen["waiting"], seen["idle"])
        for (_, name), seen in rows[:MOST_THREADS]
    )


def group_of(stack: RecordedStack) -> str:
    """The tree that a stack belongs to."""
    return {"main": MAIN, "worker *": WORKERS}.get(stack.thread_kind, OTHERS)


def _thread_name(stack: RecordedStack) -> str:
    """What a thread beside the main ones is called."""
    kind = stack.thread_kind
    if kind.startswith("worker "):
        return f"{kind.partition(' thread ')[2]} in a loader worker"
    return kind.removeprefix("thread ")


def above(group: str, stack: RecordedStack) -> tuple[Key, ...]:
    """What stands above a stack's frames: the phase of a step, or the name of the thread."""
    if group == MAIN:
        return (phase_key(stack.phase),)
    return ((_thread_name(stack), "", "thread"),) if group == OTHERS else ()


def phase_key(phase: str) -> Key:
    """The frame that stands for a phase of the step."""
    return phase.replace("_", " "), "", "phase"


def _all(amounts: Mapping[str, float]) -> float:
    return sum(amounts.values())


def _frames(root: CallTree, most: int) -> Iterator[FlameFrame]:
    for laid in laid_out(root, _all, most):
        waiting, idle = (int(laid.amounts.get(state, 0)) for state in ("waiting", "idle"))
        samples = int(_all(laid.amounts))
        yield FlameFrame(*laid.key, laid.depth, laid.left, laid.width, samples, waiting, idle)
