"""RunRecords become Facts: typed groups, each there or with the reason why it is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from perfdoctor.analysis import events, hosts, steps, tweaked
from perfdoctor.analysis.attention import written_out
from perfdoctor.analysis.backends import BackendFacts, backend_facts
from perfdoctor.analysis.batches import batch_facts
from perfdoctor.analysis.between import BetweenFacts, between_facts
from perfdoctor.analysis.copies import CopyLines, copy_lines
from perfdoctor.analysis.debugging import DebugFacts, debug_facts
from perfdoctor.analysis.device import AttentionFacts, DeviceFacts
from perfdoctor.analysis.exchange import CommFacts, of_device, of_ranks
from perfdoctor.analysis.gradients import ClearingFacts, ZeroingFacts, clearing_facts, zeroing_facts
from perfdoctor.analysis.lines import Lines, located
from perfdoctor.analysis.loaders import loader_facts
from perfdoctor.analysis.making import MADE, made_groups
from perfdoctor.analysis.nests import NestFacts, nest_facts
from perfdoctor.analysis.network import NetworkFacts, network_facts
from perfdoctor.analysis.orphans import OrphanFacts, orphan_facts
from perfdoctor.analysis.padding import PaddingFacts, padding_facts
from perfdoctor.analysis.parallel import ParallelFacts
from perfdoctor.analysis.pauses import PauseFacts, pause_facts
from perfdoctor.analysis.ranks import RanksFacts, of_job
from perfdoctor.analysis.records import Json, Window, number, positive, tidy
from perfdoctor.analysis.retained import RetainedFacts, retained_facts
from perfdoctor.analysis.scaling import points
from perfdoctor.analysis.sharing import Sharing, sharing
from perfdoctor.analysis.source import Source, Sources
from perfdoctor.analysis.stacks import stack_facts
from perfdoctor.analysis.stepmodel import StepModel, build, of_loop
from perfdoctor.analysis.storage import StorageFacts, storage_facts
from perfdoctor.analysis.summary import step_facts
from perfdoctor.analysis.threads import ThreadWork, taken_from_threads, thread_work
from perfdoctor.analysis.validation import ValidationFacts, validation_facts
from perfdoctor.analysis.windows import ANYWHERE, NO_WINDOW, ON_DEVICE, Windows, window_groups
from perfdoctor.analysis.workers import WorkerMemory, worker_memory
from perfdoctor.batch import BatchFacts
from perfdoctor.job import JobFacts
from perfdoctor.model import (
    CpuFacts,
    DiskFacts,
    EvalFacts,
    GpuFacts,
    LoaderFacts,
    Marker,
    MemoryFacts,
    OverheadFacts,
    RunFacts,
    SaveFacts,
    StackFacts,
    StepFacts,
    ThreadFacts,
)
from perfdoctor.recorded import RankRecords, RunRecords

Group = TypeVar("Group")
NO_STEPS = "no training step was seen"
CROWD = 0.25  # of the usable cores kept busy by others: from here on times are not those of a quiet machine
PER_STEP = (
    LoaderFacts, CpuFacts, ThreadFacts, StackFacts, EvalFacts, SaveFacts, MemoryFacts, DiskFacts,
    NetworkFacts, GpuFacts, OverheadFacts, StepModel, BackendFacts, BatchFacts, ThreadWork,
    CopyLines, StorageFacts, WorkerMemory, PauseFacts, DebugFacts, ClearingFacts, ZeroingFacts, RetainedFacts,
    OrphanFacts, NestFacts, PaddingFacts, ValidationFacts, BetweenFacts, JobFacts,
    *MADE,
)  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """Fact groups by type. One that was not measured has a reason in `missing`.

    One in neither is an answer: a script without a DataLoader has no LoaderFacts, and nothing is missing.
    """

    run: RunFacts
    groups: Mapping[type, Any]
    missing: Mapping[type, str]
    notes: tuple[str, ...] = ()

    def get(self, kind: type[Group]) -> Group | None:
        """The group of that type, or None."""
        found = self.run if kind is RunFacts else self.groups.get(kind)
        return found if isinstance(found, kind) else None


def gather(records: RunRecords, source: Source, windows: Windows, job: JobFacts | None = None) -> Facts:
    """All that the records of a run tell, and the windows of its lowest rank. `job`: what all ranks do."""
    records = tidy(records)
    rank, found = _first_trained(records)
    run = run_facts(records)
    here = _ranks_here(job, rank, run)
    run = replace(run, ranks=max(run.ranks, here))
    notes = (*tweaked.notes(records), *_launch_notes(records), *records.problems, *_shown_note(job, rank))
    if found is None or rank is None:
        return Facts(
            run,
            {},
            dict.fromkeys((StepFacts, *PER_STEP, *ON_DEVICE, *ANYWHERE), _why_no_steps(records)),
            notes,
        )
    if job is not None:
        found = steps.settled(found)
    measured = _measure(records, records.ranks[rank], found, source, windows, run.ranks)
    measured |= _of_job(job, measured)
    groups = {kind: value for kind, value in measured.items() if not isinstance(value, str | None)}
    missing = {kind: value for kind, value in measured.items() if isinstance(value, str)}
    crowd = () if here > len(records.ranks) else _crowd_notes(_known(groups.get(CpuFacts), CpuFacts))
    return Facts(run, groups, missing, (*notes, *crowd))


def _first_trained(records: RunRecords) -> tuple[int | None, steps.Steps | None]:
    """The lowest rank that trained, and its steps."""
    for rank, own in sorted(records.ranks.items()):
        found = steps.find(own.steps)
        if found is not None:
            return rank, found
    return None, None


def _ranks_here(job: JobFacts | None, rank: int | None, run: RunFacts) -> int:
    """How many ranks of the job share the host of the shown one."""
    ranks = {one.rank: one.node for one in job.ranks} if job is not None else {}
    node = ranks.get(rank) if rank is not None else None
    return sum(other == node for other in ranks.values()) if node is not None else run.ranks


def _of_job(job: JobFacts | None, measured: Mapping[type, object]) -> dict[type, object]:
    """What all ranks together add to the groups of the shown one."""
    device, step, cpu = (measured.get(kind) for kind in (DeviceFacts, StepFacts, CpuFacts))
    comm: object = of_device(device) if isinstance(device, DeviceFacts) else device
    if job is None:
        return {CommFacts: comm}
    own = next((one for one in job.ranks if one.rank == job.shown), None)
    if isinstance(step, StepFacts):
        job = replace(job, scale=points(job, step, _known(cpu, CpuFacts)))
    if job.exchange is not None and own is not None and not isinstance(device, DeviceFacts):
        comm = of_ranks(own, job.exchange, job.matched > 0, job.crowded_s)
    parallel = _known(measured.get(ParallelFacts), ParallelFacts)
    added: dict[type, object] = {
        JobFacts: job,
        CommFacts: comm,
        ParallelFacts: replace(parallel, own=own, exchange=job.exchange, crowded_s=job.crowded_s)
        if parallel is not None
        else None,
    }
    late = of_job(job)
    return added | {RanksFacts: late} if late is not None else added


def _measure(
    records: RunRecords, own: RankRecords, found: steps.Steps, source: Source, windows: Windows, ranks: int
) -> dict[type, object]:
    window, boot = Window.of(found), events.boot_of(own, records.boots)
    begin_ns = positive((boot or {}).get("begin_ns")) or positive(records.run.get("begin_ns"))
    step = step_facts(found, round(begin_ns) if begin_ns else None, _end_ns(records, own))
    samples = hosts.inside(records.host, window)
    loader = loader_facts(own, window)
    stacks, batch = stack_facts(own, step, source), batch_facts(own, step, loader, source)
    on_device = _device(records) != "cpu"
    gpu = hosts.gpu_facts(records.gpus, window) if on_device else None
    lines = Lines(source, run_facts(records), _known(stacks, StackFacts))
    alone = hosts.of_rank(samples, own.rank) if len(records.ranks) > 1 else samples
    work = thread_work(own, source, alone)
    host = records.run.get("host")
    cpu = hosts.cpu_facts(host if isinstance(host, dict) else {}, alone, step, _known(loader, LoaderFacts))
    model = _model(step, loader, hosts.share_of(cpu, ranks), sharing(records.sharing))
    return {
        StepFacts: step if on_device else replace(step, crowded_s=_crowded_s(model, cpu)),
        LoaderFacts: loader,
        CpuFacts: cpu,
        ThreadFacts: events.thread_facts(own, boot, step),
        StackFacts: taken_from_threads(stacks, work),
        BatchFacts: batch,
        CopyLines: copy_lines(stacks, batch, source),
        ThreadWork: work,
        EvalFacts: events.eval_facts(own, step),
        SaveFacts: events.save_facts(own, window, _known(stacks, StackFacts), Sources(source)),
        MemoryFacts: hosts.memory_facts(samples),
        WorkerMemory: worker_memory(samples),
        DiskFacts: hosts.disk_facts(samples),
        StorageFacts: storage_facts(samples),
        NetworkFacts: network_facts(samples, records.host, ranks),
        GpuFacts: gpu,
        BackendFacts: backend_facts(own) if on_device else None,
        OverheadFacts: events.overhead_facts(own, found, step, samples),
        StepModel: model,
        NestFacts: nest_facts(stacks, Sources(source)),
        PaddingFacts: padding_facts(own, window, loader, batch, Sources(source)),
        **_beside(own, found, window, samples, Sources(source)),
        DebugFacts: debug_facts(own, _known(stacks, StackFacts), _busy(gpu), Sources(source)),
        BetweenFacts: between_facts(own, step, source) if own.stacks else stacks,
        ValidationFacts: validation_facts(own, found, step, _known(loader, LoaderFacts), Sources(source)),
        **made_groups(own, found, windows, source),
        **_explained(located(window_groups(windows, step, on_device), lines), stacks, step, Sources(source)),
    }


def _explained(
    groups: dict[type, object], stacks: StackFacts | str, step: StepFacts, sources: Sources
) -> dict[type, object]:
    """What windows tell; of attention, stacks do where there is no window."""
    if groups.get(AttentionFacts) != NO_WINDOW or not isinstance(stacks, StackFacts):
        return groups
    return groups | {AttentionFacts: written_out(stacks, step, sources)}


def _crowded_s(model: StepModel | str, cpu: CpuFacts | str) -> float:
    """Seconds per step that training loses because its own loader workers have the cores."""
    if isinstance(model, str) or isinstance(cpu, str) or not model.workers or not cpu.worker_cores:
        return 0.0
    return model.crowded_s * cpu.worker_cores / (cpu.worker_cores + (cpu.other_cores or 0.0))


def _beside(
    own: RankRecords, found: steps.Steps, window: Window, samples: list[Json], sources: Sources
) -> dict[type, object]:
    """What is watched between the steps."""
    return {
        PauseFacts: pause_facts(own, window, sources),
        ClearingFacts: clearing_facts(own, sources),
        ZeroingFacts: zeroing_facts(own, window, sources),
        OrphanFacts: orphan_facts(own, sources),
        RetainedFacts: retained_facts(own, found, window, samples, sources),
    }


def _busy(gpu: GpuFacts | str | None) -> float | None:
    return gpu.utilisation if isinstance(gpu, GpuFacts) else None


def _known(value: object, kind: type[Group]) -> Group | None:
    return value if isinstance(value, kind) else None


def _model(
    step: StepFacts, loader: LoaderFacts | str | None, cpu: CpuFacts | str, shared: Sharing
) -> StepModel | str:
    if isinstance(cpu, str):
        return cpu
    if isinstance(loader, str):
        return loader
    return build(step, loader, cpu, shared) if loader is not None else of_loop(step, cpu, shared)


def _end_ns(records: RunRecords, own: RankRecords) -> int | None:
    """When the process ended: its last row, where it is the END row, else the run's end."""
    if own.steps is not None and len(own.steps) and own.steps["marker"][-1] == Marker.END:
        return int(own.steps["end_ns"][-1])
    end_ns = positive(records.run.get("end_ns"))
    return round(end_ns) if end_ns else None


def run_facts(records: RunRecords) -> RunFacts:
    """What was run and how it ended."""
    run = records.run
    command = run.get("command")
    boot = next(iter(records.boots), {})
    exit_code = run.get("exit_code")
    return RunFacts(
        id=str(run.get("id") or records.path.name),
        command=tuple(str(word) for word in command) if isinstance(command, list) else (),
        exit_code=exit_code if isinstance(exit_code, int) else None,
        ranks=max(1, len(records.ranks)),
        device=_device(records),
        duration_s=_duration_s(records),
        cwd=str(run.get("cwd") or ""),
        python=_text(boot.get("python")),
        torch=_text(boot.get("torch")),
        outcome=str(run.get("outcome") or "lost"),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _device(records: RunRecords) -> str:
    named = [entry for own in records.ranks.values() for entry in own.of("device")]
    boots: list[Json] = [boot for boot in records.boots if boot.get("device")]
    backend = (named[-1].get("backend") or "cpu") if named else (boots[-1]["device"] if boots else "cpu")
    return str(named[-1].get("name") or backend) if named and backend != "cpu" else str(backend)


def _duration_s(records: RunRecords) -> float:
    begin = number(records.run.get("begin_ns"))
    end = number(records.run.get("end_ns"))
    if not end:  # perfdoctor itself was killed: the last thing seen
        last = [
            number(own.steps["end_ns"][-1])
            for own in records.ranks.values()
            if own.steps is not None and len(own.steps)
        ]
        end = max([*last, *(number(entry.get("t_ns")) for entry in records.host[-1:])], default=begin)
    return max(0.0, end - begin) / 1e9 if begin else 0.0


def _why_no_steps(records: RunRecords) -> str:
    if not records.boots:
        return "torch was not imported in a process that could be watched"
    return (
        NO_STEPS
        if records.ranks
        else "nothing trained: no optimizer, no backward, no loader and no module was used"
    )


def _launch_notes(records: RunRecords) -> tuple[str, ...]:
    """What the launcher found to be unwatched, and the mend."""
    notes = records.run.get("notes")
    return tuple(note for note in notes if isinstance(note, str)) if isinstance(notes, list) else ()


def _crowd_notes(cpu: CpuFacts | None) -> tuple[str, ...]:
    if cpu is None or cpu.other_cores is None or cpu.other_cores < CROWD * cpu.usable_cores:
        return ()
    busy = f"other programs kept {cpu.other_cores:.1f} of {cpu.usable_cores:g} cores busy"
    return (f"{busy}: times and gains will differ on a quiet machine",)


def _shown_note(job: JobFacts | None, rank: int | None) -> tuple[str, ...]:
    """Which of several ranks the figures are of."""
    several = job is not None and sum(one.steps > 0 for one in job.ranks) > 1
    return (f"findings and phases are those of rank {rank}",) if several and rank is not None else ()
