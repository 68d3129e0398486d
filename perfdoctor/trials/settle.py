"""`auto` as a tweak's value becomes numbers, by the run that was watched: one, or several to try."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from perfdoctor import samplers
from perfdoctor.analysis.facts import Facts
from perfdoctor.analysis.stepmodel import StepModel
from perfdoctor.errors import PerfdoctorError
from perfdoctor.model import CpuFacts, GpuFacts, LoaderFacts, MemoryFacts
from perfdoctor.probe.tweak import AUTO
from perfdoctor.tips.too_few_workers import KNEE, MOST, most_workers
from perfdoctor.trial import Setting, Variant
from perfdoctor.trials.flags import VALUE

LARGER = (2, 4, 8, 16)  # times the batch: each costs a trial, and beyond it is another training altogether
OF_MEMORY = 0.9  # of what there is: the peak of a step is higher than samples once a second show
BATCHES = 4  # of an epoch that have to be left: with fewer, the last and smaller one counts as much
UNKNOWN = 2.0  # times the memory that is tried where it is not known how much there is


def settle(variants: Iterable[Variant], facts: Facts | None) -> tuple[Variant, ...]:
    """The variants, with a number for every `auto`; `facts` are the last run's, None where there is none.

    Raises PerfdoctorError where there is nothing to choose a number by.
    """
    return tuple(Variant(settings) for variant in variants for settings in _settled(variant.settings, facts))


def _settled(settings: Sequence[Setting], facts: Facts | None) -> list[tuple[Setting, ...]]:
    """Each way to settle all of these settings."""
    found: list[tuple[Setting, ...]] = [()]
    for setting in settings:
        ways = [setting]
        if setting.values.get(VALUE) == AUTO:
            ways = [with_value(setting, number) for number in _numbers(setting, facts)]
        found = [(*before, way) for before in found for way in ways]
    return found


def with_value(setting: Setting, number: int) -> Setting:
    """The same tweak with another number for its own flag."""
    words = (setting.words[0], str(number), *setting.words[2:])
    return replace(setting, words=words, values={**setting.values, VALUE: number})


def _numbers(setting: Setting, facts: Facts | None) -> list[int]:
    """What `auto` of this tweak stands for."""
    if setting.tweak == "workers":
        return [_workers(facts)]
    if setting.tweak == "batch-size":
        return _batch_sizes(facts)
    raise PerfdoctorError(
        f"{' '.join(setting.words)}: there is nothing to choose by", f"give a number to {setting.words[0]}"
    )


def _workers(facts: Facts | None) -> int:
    """The fewest workers that are nearly as good as any number of them; without a run, as many as cores."""
    model, cpu = (facts.get(StepModel), facts.get(CpuFacts)) if facts is not None else (None, None)
    if model is None or cpu is None or not model.batches:
        return max(1, min(MOST, int(samplers.usable_cores()[0])))
    best = model.knee(most_workers(model, cpu), KNEE)
    return 0 if model.step_with(0) <= model.step_with(best) * (1 + KNEE) else best


def _batch_sizes(facts: Facts | None) -> list[int]:
    """Larger batches that memory and dataset leave room for."""
    loader = facts.get(LoaderFacts) if facts is not None else None
    if facts is None or loader is None or not loader.batch_size:
        raise PerfdoctorError(
            "--batch-size auto: the size that the script uses is not known",
            "watch it first (perfdoctor run train.py), or give a number (--batch-size 64)",
        )
    room, each_rank = _room(facts), (loader.items or 0) // max(1, facts.run.ranks)
    sizes = [
        loader.batch_size * times
        for times in LARGER
        if times <= room and (not loader.items or loader.batch_size * times * BATCHES <= each_rank)
    ]
    if not sizes:
        what, least = "memory" if room < LARGER[0] else "the dataset", LARGER[0] * loader.batch_size
        raise PerfdoctorError(
            f"--batch-size auto: {what} leaves no room for batches of {least}",
            f"to try it all the same: --batch-size {least}",
        )
    return sizes


def _room(facts: Facts) -> float:
    """How many times the memory in use there is: a batch so many times as large surely takes no more."""
    gpu, memory = facts.get(GpuFacts), facts.get(MemoryFacts)
    if facts.run.device != "cpu":
        used, most = (gpu.memory_used_bytes, gpu.memory_total_bytes) if gpu is not None else (None, None)
    elif memory is not None and memory.peak_rss_bytes and memory.available_bytes is not None:
        used, most = memory.peak_rss_bytes, memory.peak_rss_bytes + memory.available_bytes
    else:
        used = most = None
    return OF_MEMORY * most / used if used and most else UNKNOWN
