"""Turns a run's records into Facts: typed groups, each there, not applicable, or missing for a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from perfdoctor.facts import registry
from perfdoctor.facts.decode import sanitized
from perfdoctor.facts.device import device_errors
from perfdoctor.facts.device.profiler_windows import MeasuredWindows
from perfdoctor.facts.given import AllRanks
from perfdoctor.facts.steps import boundaries, rollouts, tweak_notes
from perfdoctor.facts.steps.boundaries import Steps
from perfdoctor.facts.user_source.parse import LineReader, Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import CpuFacts, RunFacts
from perfdoctor.model.missing import Missing
from perfdoctor.model.note import Note, Remark
from perfdoctor.model.own_failure import OwnFailure
from perfdoctor.model.ranks import JobFacts
from perfdoctor.own_failures import contained
from perfdoctor.runs.records import LOST, NO_ROOM_FOR_STEPS
from perfdoctor.runs.types import RankRecords, RunRecords

Group = TypeVar("Group")
NO_STEPS = "no training step was seen"


@dataclass(frozen=True)
class Facts:
    """Groups of facts by type; Missing where one was not measured, None where it does not apply."""

    groups: Mapping[Any, object]
    notes: tuple[Remark, ...] = ()
    failures: tuple[OwnFailure, ...] = ()  # groups that are missing for a defect of ours
    is_torn: bool = False  # a file of the rank is lost without which it cannot be judged

    @property
    def run(self) -> RunFacts:
        """What was run, which is always known."""
        run = self.groups[RunFacts]
        assert isinstance(run, RunFacts)
        return run

    def get(self, kind: type[Group]) -> Group | None:
        """The group of that type, or None where there is none, for whatever reason."""
        group = self.groups.get(kind)
        return group if isinstance(group, kind) else None

    def missing(self, kind: type) -> Missing | None:
        """Why a group was not measured, or None where it was or does not apply."""
        group = self.groups.get(kind)
        return group if isinstance(group, Missing) else None


def gather(
    records: RunRecords, source: LineReader, windows: MeasuredWindows, job: JobFacts | None = None
) -> Facts:
    """All that the records of a run tell, and the windows of its lowest rank. `job`: what all ranks do."""
    records = sanitized(records)
    rank, steps = first_trained(records)
    failures: list[OwnFailure] = []
    sources, own = Sources(source), records.ranks.get(rank) if rank is not None else None
    told: tuple[Note, ...] = ()
    if own is not None and steps is not None:
        steps = boundaries.settled(steps) if job is not None else steps
        with contained("passes in eval mode", failures):
            own, steps, told = rollouts.told_apart(own, steps, sources)
        records = replace(records, ranks={**records.ranks, own.rank: own})
    of_rank: dict[Any, object] = {
        RankRecords: own,
        Steps: steps,
        MeasuredWindows: windows,
        AllRanks: AllRanks(job) if job is not None else None,
    }
    if steps is None:
        of_rank = dict.fromkeys(of_rank, Missing(_why_no_steps(records)))
    given = {RunRecords: records, Sources: sources, **of_rank}
    facts = Facts(registry.compute(given, failures))
    notes: tuple[Remark, ...] = (
        *tweak_notes.notes(records),
        *_launch_notes(records),
        *records.problems,
        *device_errors.notes(records),
        *(device_errors.unused(records, facts.run) if steps is not None else ()),
        *_shown_note(job, rank),
        *told,
        *_contention_notes(facts.get(CpuFacts)),
    )
    return Facts(facts.groups, notes, tuple(failures), _is_torn(records, rank))


def first_trained(records: RunRecords) -> tuple[int | None, Steps | None]:
    """The lowest rank that trained, and its steps."""
    for rank, recorded in sorted(records.ranks.items()):
        steps = boundaries.of_rank(recorded)
        if steps is not None:
            return rank, steps
    return None, None


def _why_no_steps(records: RunRecords) -> str:
    if any(isinstance(note, Note) and note.slug == NO_ROOM_FOR_STEPS for note in records.problems):
        return "no step could be recorded: the disk that holds the run was full"
    if not records.boots:
        return "no watched process imported torch"
    return (
        NO_STEPS
        if records.ranks
        else "no training was seen: no optimizer, backward, loader or module was used"
    )


def _is_torn(records: RunRecords, rank: int | None) -> bool:
    lost = (note for note in records.problems if isinstance(note, Note) and note.slug == LOST)
    return any(note.values["rank"] == rank for note in lost)


def _launch_notes(records: RunRecords) -> tuple[str, ...]:
    """What the launcher found to be unwatched, and how to fix it."""
    notes = records.run.get("notes")
    return tuple(note for note in notes if isinstance(note, str)) if isinstance(notes, list) else ()


def _contention_notes(cpu: CpuFacts | None) -> tuple[Note, ...]:
    if cpu is None or not cpu.crowded:
        return ()
    return (Note("busy-machine", {"busy": cpu.other_cores, "cores": cpu.usable_cores}),)


def _shown_note(job: JobFacts | None, rank: int | None) -> tuple[Note, ...]:
    """Which of several ranks the figures are of."""
    several = job is not None and sum(one.steps > 0 for one in job.ranks) > 1
    return (Note("shown-rank", {"rank": rank}),) if several and rank is not None else ()
