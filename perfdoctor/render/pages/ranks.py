"""All ranks of a job on the page: how each ended, the straggler, each rank's step, the gradient sync."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Phase
from perfdoctor.model.ranks import (
    DDP,
    GradientSyncFacts,
    JobFacts,
    RankFacts,
    ScalePoint,
    Straggler,
    rank_list,
)
from perfdoctor.render import page as blocks
from perfdoctor.render import text
from perfdoctor.render.notes import all_worded, worded
from perfdoctor.render.page import Block, Headline, Labelled, Levels, Section, Words
from perfdoctor.render.pages.conclusions import COLOURS
from perfdoctor.render.pages.rank_table import (
    STRAGGLER,
    SYNCING,
    TRANSFER,
    WAIT,
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
CAUSES = 2  # named of what delays the straggler, where it is not always the same rank
SINCE = re.compile(r",? for (\d+(?:\.\d+)?) s$")  # the end of what is said of a rank that hangs
FULL = 0.05  # of the time: shorter waits do not fill the line of levels
OFTEN = 0.05  # syncs per step more or less than one from which their number is shown
WIDE = 0.1  # of a speedup: the ends of a range that is narrower say no more than its middle


def sections(job: JobFacts, cwd: str) -> Iterator[Section]:
    """The part of the page about all ranks."""
    rows = [row(rank, job) for rank in job.ranks]
    yield [heading(size(job), len(rows), "gradient syncs"), *above(job)]
    if rows:
        yield from shown(rows)
    yield below(job, cwd)


def below(job: JobFacts, cwd: str) -> list[Block]:
    """What the ranks do together, and what to know of it."""
    about = tuple(_about(job, cwd))
    notes = [blocks.bullets(all_worded(job.notes), quietly=True)] if job.notes else []
    return [*([Labelled(about)] if about else []), *notes]


def above(job: JobFacts) -> Iterator[Block]:
    """How ranks ended, and the straggler."""
    ended = list(endings(job))
    if ended:
        yield Headline(blocks.strong("Where the ranks stopped"), level=5)
        yield blocks.bullets(ended, colour="yellow")
    if job.missing:
        yield blocks.bullets([f"{rank_list(job.missing)} left no record"], colour="yellow")
    straggler = job.straggler
    if straggler is not None:
        cause = straggler.cause if straggler.excess_s > 0 else None
        yield from straggler_blocks(_who(straggler, job.nodes), cause, list(_reasons(straggler)))


def size(job: JobFacts) -> str:
    """`8 ranks on 2 nodes`."""
    nodes = f" on {len(job.nodes)} nodes" if len(job.nodes) > 1 else ""
    return f"{text.count(job.world, 'rank')}{nodes}"


def row(rank: RankFacts, job: JobFacts) -> Row:
    """A rank's phases, with wait and transfer time apart where gradient syncs were matched."""
    return Row(
        name=str(rank.rank),
        node=rank.node,
        step_s=rank.mean_s,
        seconds=dict(_seconds(rank)) if rank.steps else {},
        steps=rank.steps,
        last=rank.last / rank.matched if rank.matched else None,
        mark=STRAGGLER if job.straggler is not None and job.straggler.includes(rank) else "",
        remark="" if rank.steps else "no step",
    )


def _seconds(rank: RankFacts) -> Iterator[tuple[Kind, float]]:
    for phase in Phase:
        value_s = rank.seconds.get(phase, 0.0)
        if phase is not Phase.GRAD_SYNC:
            yield PHASES[phase], value_s
        elif rank.matched:
            yield WAIT, min(rank.waiting_s, value_s)
            yield TRANSFER, max(0.0, value_s - rank.waiting_s)
        else:
            yield SYNCING, value_s


def _who(late: Straggler, nodes: Sequence[str]) -> str:
    node = short(set(nodes)).get(late.node, late.node)
    if late.whole_node:
        return f"all of {node}, most for rank {late.rank}"
    return f"rank {late.rank}" + (f" ({node})" if len(nodes) > 1 else "")


def _reasons(late: Straggler) -> Iterator[str]:
    last = f"the last to start {text.percent(late.last)} of {text.count(late.matched, 'gradient sync')}"
    behind = f"{text.seconds(late.behind_s or 0.0)} a step behind"
    yield f"{last}, {behind}; {text.percent(late.caused)} of all wait time"
    yield from late.why.split("; ")
    if late.saved_s:
        cured = "all computed as much" if late.more_data else "it were as fast as the others"
        yield f"if {cured}, each step would take {text.seconds(late.saved_s)} less"


def straggler_blocks(rank: str, cause: Bottleneck | None, because: Sequence[str]) -> list[Block]:
    """The rank that the others wait for, and why, in text."""
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
        yield "straggler", f"no single rank{_taking_turns(job)}"
    if job.gradient_sync is not None:
        yield from gradient_sync(job.gradient_sync, cwd)
    if job.skew:
        low, high = text.percent(min(job.skew)), text.percent(max(job.skew))
        yield "wait", Levels(job.skew, FULL, f"{low} to {high} of the time, begin to end")
    if job.scale:
        yield "speedup", scale(job.scale)
    if len(job.nodes) > 1 and job.clock_error_s is not None:
        error = text.seconds(job.clock_error_s)
        yield "clocks", f"times of different nodes can be off by {error}"
    if job.attempt:
        yield "restarts", f"{job.attempt:,} before this attempt, by the launcher"


def _taking_turns(job: JobFacts) -> str:
    """What takes longer on the straggler, where it is not always the same rank."""
    total_s = sum(job.waits.values())
    ordered = sorted(job.waits.items(), key=lambda entry: -entry[1])
    told = [
        f"{cause.value} ({text.percent(value_s / total_s)})"
        for cause, value_s in ordered[:CAUSES]
        if value_s > 0
    ]
    return f"; rank {job.shown} waits for ranks that are slower in {', '.join(told)}" if told else ""


def scale(points: Sequence[ScalePoint]) -> str:
    """What more ranks bring against one, and what holds the last of them up."""
    told = ", ".join(_point(point) for point in points if point.ranks > 1)
    last = points[-1]
    return f"of one rank: {told}; with {text.count(last.ranks, 'rank')}, {worded(last.because)}"


def _point(point: ScalePoint) -> str:
    gain = point.speedup
    low, likely, high = (text.percent(times / point.ranks) for times in (gain.low, gain.likely, gain.high))
    wide = gain.high - gain.low >= WIDE * gain.likely
    efficiency = f"{low.removesuffix('%')}–{high}" if wide else likely
    return f"{point.ranks:,} ranks {text.times(gain.likely)} ({efficiency})"


def gradient_sync(sync: GradientSyncFacts, cwd: str) -> Iterator[tuple[str, str]]:
    """What synchronising gradients takes in a step: how much, how fast, and what of it is not hidden."""
    often = abs(sync.exchanges - 1) > OFTEN
    collective = "bucket" if sync.kind == DDP else "collective"
    much = [
        f"{text.size(sync.bytes)} a step",
        f"{text.figures(sync.exchanges)} syncs" if often else "",
        text.count(round(sync.buckets), collective) if sync.buckets >= 1 else "",
        _rate(sync),
    ]
    place = f"at {text.place(sync.at, cwd)}" if sync.at else ""
    yield "grad sync", f"{sync.kind}: {', '.join(filter(None, [*much, place]))}"
    hidden = f"{text.percent(sync.hidden)} hidden by computing"
    exposed, waiting = (text.seconds(value_s) for value_s in (sync.exposed_s, sync.waiting_s))
    yield "", f"takes {text.seconds(sync.busy_s)}: {hidden}, {exposed} exposed, {waiting} wait"
    if len(sync.by_kind) > 1:
        kinds = sorted(sync.by_kind.items(), key=lambda entry: -entry[1][2])
        yield "", ", ".join(_kind(name, *figures) for name, figures in kinds if figures[0] > 0)


def _rate(found: GradientSyncFacts) -> str:
    """How fast it went, and what the link can do where `perfdoctor net` measured it."""
    if not found.bus_bytes_per_s:
        return ""
    able = f" of the {text.size(found.link_bytes_per_s)}/s measured" if found.link_bytes_per_s else ""
    return f"bus bandwidth {text.size(found.bus_bytes_per_s)}/s{able}"


def _kind(name: str, calls: float, moved_bytes: int, taken_s: float) -> str:
    return f"{text.figures(calls)} {name} of {text.size(moved_bytes / calls)}: {text.seconds(taken_s)}"
