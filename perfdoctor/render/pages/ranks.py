"""All ranks of a job on the page: who ended how, whom the others wait for, each rank's step, the exchange."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Phase
from perfdoctor.model.ranks import GradientSyncFacts, JobFacts, RankFacts, ScalePoint, Straggler, rank_list
from perfdoctor.render import page as blocks
from perfdoctor.render import text
from perfdoctor.render.page import Block, Headline, Labelled, Levels, Section, Words
from perfdoctor.render.pages.conclusions import COLOURS
from perfdoctor.render.pages.rank_table import (
    LATE,
    MOVING,
    SYNCING,
    WAITING,
    Kind,
    Row,
    heading,
    short,
    shown,
)

LETTERS = {
    Phase.DATA_WAIT: "d",
    Phase.HOST_TO_DEVICE: "h",
    Phase.FORWARD: "f",
    Phase.BACKWARD: "b",
    Phase.OPTIMIZER: "o",
    Phase.VALIDATION: "v",
    Phase.CHECKPOINT: "c",
    Phase.OTHER: ".",
}
PHASES = {
    phase: Kind(phase.value.replace("_", " "), letter, COLOURS[phase]) for phase, letter in LETTERS.items()
}
LONGER = {
    Bottleneck.DATA: "its batches take longer",
    Bottleneck.TRANSFER: "its copies take longer",
    Bottleneck.COMPUTE: "its computing takes longer",
    Bottleneck.NETWORK: "what it fetches or sends takes longer",
    Bottleneck.HOST: "its Python takes longer",
}
GROUPS = 6  # of ranks that ended in the same way; more are counted
CAUSES = 2  # named of what makes ranks late by turns
SINCE = re.compile(r",? for (\d+(?:\.\d+)?) s$")  # the end of what is said of a rank that hangs
DDP = "DistributedDataParallel"  # what it calls its collectives: buckets
FULL = 0.05  # of the time: a waiting that is nowhere longer does not fill the line of levels
OFTEN = 0.05  # exchanges per step more or less than one from which it is said how many


def sections(job: JobFacts, cwd: str) -> Iterator[Section]:
    """The part of the page about all ranks."""
    rows = [row(rank, job) for rank in job.ranks]
    yield [heading(size(job), len(rows), "gradient syncs"), *_above(job)]
    if rows:
        yield from shown(rows)
    about = tuple(_about(job, cwd))
    notes = [blocks.bullets(job.notes, quietly=True)] if job.notes else []
    yield [*([Labelled(about)] if about else []), *notes]


def _above(job: JobFacts) -> Iterator[Block]:
    """Who ended how, and whom the others wait for."""
    ended = list(endings(job))
    if ended:
        yield Headline(blocks.strong("Where the ranks stopped"), level=5)
        yield blocks.bullets(ended, colour="yellow")
    if job.missing:
        yield blocks.bullets([f"{rank_list(job.missing)} left no record"], colour="yellow")
    straggler = job.straggler
    if straggler is not None:
        cause = straggler.cause if straggler.excess_s > 0 else None
        yield from awaited(_who(straggler, job.nodes), cause, list(_lateness(straggler)))


def size(job: JobFacts) -> str:
    """`8 ranks on 2 nodes`."""
    nodes = f" on {len(job.nodes)} nodes" if len(job.nodes) > 1 else ""
    return f"{text.count(job.world, 'rank')}{nodes}"


def row(rank: RankFacts, job: JobFacts) -> Row:
    """A rank's phases with its waiting told apart from moving, where exchanges were matched."""
    return Row(
        name=str(rank.rank),
        node=rank.node,
        step_s=rank.mean_s,
        seconds=dict(_seconds(rank)) if rank.steps else {},
        steps=rank.steps,
        last=rank.last / rank.matched if rank.matched else None,
        mark=LATE if job.straggler is not None and job.straggler.includes(rank) else "",
        remark="" if rank.steps else "no step",
    )


def _seconds(rank: RankFacts) -> Iterator[tuple[Kind, float]]:
    for phase in Phase:
        value_s = rank.seconds.get(phase, 0.0)
        if phase is not Phase.GRAD_SYNC:
            yield PHASES[phase], value_s
        elif rank.matched:
            yield WAITING, min(rank.waiting_s, value_s)
            yield MOVING, max(0.0, value_s - rank.waiting_s)
        else:
            yield SYNCING, value_s


def _who(late: Straggler, nodes: Sequence[str]) -> str:
    node = short(set(nodes)).get(late.node, late.node)
    if late.whole_node:
        return f"all of {node}, most for rank {late.rank}"
    return f"rank {late.rank}" + (f" ({node})" if len(nodes) > 1 else "")


def _lateness(late: Straggler) -> Iterator[str]:
    last = f"last to {text.percent(late.last)} of {text.count(late.matched, 'exchange')}"
    behind = f"{text.seconds(late.behind_s or 0.0)} a step behind"
    yield f"{last}, {behind}; {text.percent(late.caused)} of all waiting"
    yield from late.why.split("; ")
    if late.saved_s:
        yield f"if it came when the others do, all would take {text.seconds(late.saved_s)} a step less"


def awaited(rank: str, cause: Bottleneck | None, because: Sequence[str]) -> list[Block]:
    """Whom the others wait for and why, in text."""
    why = f": {LONGER[cause]}" if cause is not None else ""
    told = blocks.strong(f"The others wait for {rank}{why}", "yellow")
    return [Headline(told, level=5), blocks.bullets(because)]


def endings(job: JobFacts) -> Iterator[str]:
    """Ranks that ended badly or hang, those in one place together, the fewest first."""
    groups: dict[str, list[RankFacts]] = {}
    for rank in job.ranks:
        told = [rank.ended or "", f"in {SINCE.sub('', rank.inside)}" if rank.inside else ""]
        if any(told):
            groups.setdefault(", ".join(filter(None, told)), []).append(rank)
    ordered = sorted(groups.items(), key=lambda group: (len(group[1]), bool(_since(group[1]))))
    for told_once, ranks in ordered[:GROUPS]:
        yield f"{rank_list([rank.rank for rank in ranks])}: {told_once}{_since(ranks)}"
    if len(ordered) > GROUPS:
        yield f"and {text.count(sum(len(ranks) for _, ranks in ordered[GROUPS:]), 'more rank')}"


def _since(ranks: Sequence[RankFacts]) -> str:
    """For how long the first of them has been where it is: in a collective that is about as long for all."""
    found = [SINCE.search(rank.inside or "") for rank in ranks]
    longest_s = max((float(since[1]) for since in found if since), default=0.0)
    return f", for {longest_s:.0f} s" if longest_s else ""


def _about(job: JobFacts, cwd: str) -> Iterator[tuple[str, Words | Levels]]:
    """What there is to say of all of them, a line each."""
    if job.matched and job.straggler is None:
        yield "late", f"no rank in particular{_taking_turns(job)}"
    if job.gradient_sync is not None:
        yield from exchange(job.gradient_sync, cwd)
    if job.skew:
        low, high = text.percent(min(job.skew)), text.percent(max(job.skew))
        yield "waiting", Levels(job.skew, FULL, f"{low} to {high} of the time, begin to end")
    if job.scale:
        yield "speedup", scale(job.scale)
    if len(job.nodes) > 1 and job.clock_error_s is not None:
        error = text.seconds(job.clock_error_s)
        yield "clocks", f"times of different nodes can be off by {error}"
    if job.attempt:
        yield "restarts", f"{job.attempt:,} before this attempt, by the launcher"


def _taking_turns(job: JobFacts) -> str:
    """What ranks that are late by turns do longer."""
    total_s = sum(job.waits.values())
    ordered = sorted(job.waits.items(), key=lambda entry: -entry[1])
    told = [
        f"{cause.value} {text.percent(value_s / total_s)}"
        for cause, value_s in ordered[:CAUSES]
        if value_s > 0
    ]
    return f": rank {job.shown} waits for what takes others longer, {', '.join(told)}" if told else ""


def scale(points: Sequence[ScalePoint]) -> str:
    """What more ranks bring against one, and what holds the last of them up."""
    told = ", ".join(_point(point) for point in points if point.ranks > 1)
    last = points[-1]
    return f"of one rank: {told}; with {text.count(last.ranks, 'rank')}, {last.because}"


def _point(point: ScalePoint) -> str:
    efficiency = text.percent(point.speedup.likely / point.ranks)
    return f"{point.ranks:,} ranks {text.times(point.speedup.likely)} ({efficiency})"


def exchange(found: GradientSyncFacts, cwd: str) -> Iterator[tuple[str, str]]:
    """What the ranks exchange in a step: how much, how fast, and what of it is waited for."""
    often = abs(found.exchanges - 1) > OFTEN
    collective = "bucket" if found.kind == DDP else "collective"
    much = [
        f"{text.size(found.bytes)} a step",
        f"{text.figures(found.exchanges)} exchanges" if often else "",
        text.count(round(found.buckets), collective) if found.buckets >= 1 else "",
        _rate(found),
    ]
    place = f"at {text.place(found.at, cwd)}" if found.at else ""
    yield "exchange", f"{found.kind}: {', '.join(filter(None, [*much, place]))}"
    hidden = f"{text.percent(found.hidden)} hidden by computing"
    exposed, waiting = (text.seconds(value_s) for value_s in (found.exposed_s, found.waiting_s))
    yield "", f"takes {text.seconds(found.busy_s)}: {hidden}, {exposed} exposed, {waiting} waiting"
    if len(found.by_kind) > 1:
        kinds = sorted(found.by_kind.items(), key=lambda entry: -entry[1][2])
        yield "", ", ".join(_kind(name, *figures) for name, figures in kinds if figures[0] > 0)


def _rate(found: GradientSyncFacts) -> str:
    """How fast it went, and what the link can do where `perfdoctor net` measured it."""
    if not found.bus_bytes_per_s:
        return ""
    able = f" of the {text.size(found.link_bytes_per_s)}/s measured" if found.link_bytes_per_s else ""
    return f"bus bandwidth {text.size(found.bus_bytes_per_s)}/s{able}"


def _kind(name: str, calls: float, moved_bytes: int, taken_s: float) -> str:
    return f"{text.figures(calls)} {name} of {text.size(moved_bytes / calls)}: {text.seconds(taken_s)}"
