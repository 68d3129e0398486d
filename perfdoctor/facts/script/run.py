"""Tells what was run, on what, and how it ended: RunFacts."""

from __future__ import annotations

from perfdoctor.facts.decode import Json, number
from perfdoctor.facts.given import AllRanks
from perfdoctor.facts.registry import fact
from perfdoctor.model.measured import RunFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords, RunRecords
from perfdoctor.wire.events.loaders import LoaderEvent

TRANSFORMERS = "transformers"  # its options are TrainingArguments


@fact
def run_facts(records: RunRecords, rank: RankRecords | Missing, ranks: AllRanks | Missing | None) -> RunFacts:
    """What was run and how it ended, known of a run that never trained, too."""
    run = records.run
    command = run.get("command")
    boot = next(iter(records.boots), {})
    exit_code = run.get("exit_code")
    return RunFacts(
        id=str(run.get("id") or records.path.name),
        command=tuple(str(word) for word in command) if isinstance(command, list) else (),
        exit_code=exit_code if isinstance(exit_code, int) else None,
        ranks=max(1, len(records.ranks), _ranks_here(rank, ranks)),
        device=_device(records),
        duration_s=_duration_s(records),
        cwd=str(run.get("cwd") or ""),
        python=_text(boot.get("python")),
        torch=_text(boot.get("torch")),
        outcome=str(run.get("outcome") or "lost"),
        trainer=_trainer(rank),
    )


def _ranks_here(rank: RankRecords | Missing, ranks: AllRanks | Missing | None) -> int:
    """How many ranks of the job share the host of the shown one; 0 where that is not known."""
    if not isinstance(rank, RankRecords) or not isinstance(ranks, AllRanks):
        return 0
    nodes = {one.rank: one.node for one in ranks.job.ranks}
    return sum(node == nodes.get(rank.rank) for node in nodes.values())


def _trainer(rank: RankRecords | Missing) -> str | None:
    """Transformers, where its Trainer makes the loader, and not one around a loader of the user's."""
    made = rank.of(LoaderEvent) if isinstance(rank, RankRecords) else []
    own = (event.library == TRANSFORMERS and not event.own_batch_sampler for event in made)
    return TRANSFORMERS if any(own) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _device(records: RunRecords) -> str:
    """The accelerator's name, or "cpu"."""
    named = [entry for rank in records.ranks.values() for entry in rank.of("device")]
    boots: list[Json] = [boot for boot in records.boots if boot.get("device")]
    backend = (named[-1].get("backend") or "cpu") if named else (boots[-1]["device"] if boots else "cpu")
    return str(named[-1].get("name") or backend) if named and backend != "cpu" else str(backend)


def _duration_s(records: RunRecords) -> float:
    begin = number(records.run.get("begin_ns"))
    end = number(records.run.get("end_ns"))
    if not end:  # perfdoctor itself was killed: the last thing seen
        last = [
            float(rank.steps["end_ns"][-1])
            for rank in records.ranks.values()
            if rank.steps is not None and len(rank.steps)
        ]
        end = max([*last, *(number(entry.get("t_ns")) for entry in records.host[-1:])], default=begin)
    return max(0.0, end - begin) / 1e9 if begin else 0.0
