"""Folded stacks: a line for each, `thread;phase;frame;frame count`, as flame graph programs read them."""

from __future__ import annotations

from collections import Counter

from perfdoctor.model.recorded import Recorded
from perfdoctor.render import text


def folded(record: Recorded) -> str:
    """A line for each distinct stack; separators inside a name are written as other letters."""
    return "".join(
        f"{';'.join(_name(each) for each in (stack.thread, stack.phase, *stack.frames))} {stack.samples}\n"
        for stack in record.stacks
    )


def difference(before: Recorded, after: Recorded) -> str:
    """A line for each stack with its counts in both, as programs that compare flame graphs read them.

    Counts of the earlier run are scaled, thread by thread, to as many samples as the later one has: it may
    have been watched for longer.
    """
    earlier, later = _counted(before), _counted(after)
    samples = [_by_thread(counts) for counts in (earlier, later)]
    lines = []
    for thread, *names in sorted(earlier | later):
        key = (thread, *names)
        were, are = (totals[thread] for totals in samples)
        scale = are / were if were and are else 1.0
        lines.append(f"{';'.join(key)} {round(earlier[key] * scale)} {later[key]}\n")
    return "".join(lines)


def _counted(record: Recorded) -> Counter[tuple[str, ...]]:
    """Samples by thread, phase and frames; threads are called the same in all runs."""
    counts: Counter[tuple[str, ...]] = Counter()
    for stack in record.stacks:
        counts[tuple(map(_name, (stack.thread_kind, stack.phase, *stack.frames)))] += stack.samples
    return counts


def _by_thread(counts: Counter[tuple[str, ...]]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for (thread, *_), samples in counts.items():
        totals[thread] += samples
    return totals


def _name(name: str) -> str:
    return text.escape_control(name).replace(";", ":")
