"""All ranks of a job on the page: who ended how, whom the others wait for, each rank's step, the exchange."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from perfdoctor.job import ExchangeFacts, JobFacts, LateRank, RankFacts, ScalePoint
from perfdoctor.jobnotes import named
from perfdoctor.model import Bottleneck, Phase
from perfdoctor.render import parts, words
from perfdoctor.render.ranktable import (
    APART,
    LATE,
    MOVING,
    ROOM,
    SYNCING,
    WAITING,
    Kind,
    Row,
    heading,
    short,
    shown,
)
from perfdoctor.render.words import harmless

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
    phase: Kind(phase.value.replace("_", " "), letter, parts.COLOURS[phase])
    for phase, letter in LETTERS.items()
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
LEVELS = "▁▂▃▄▅▆▇█"
FULL = 0.05  # of the time: a waiting that is nowhere longer does not fill the line of levels
OFTEN = 0.05  # exchanges per step more or less than one from which it is said how many


def block(job: JobFacts, cwd: str) -> RenderableType:
    """The part of the page about all ranks."""
    return Group(*_lines(job, cwd))


def _lines(job: JobFacts, cwd: str) -> Iterator[RenderableType]:
    rows = [row(rank, job) for rank in job.ranks]
    yield heading(size(job), len(rows), "exchanges")
    ended = list(endings(job))
    if ended:
        bullets = (parts.bullet(line, "yellow") for line in ended)
        yield Group(Text("Where the ranks stopped", style="bold"), *bullets)
    if job.missing:
        yield parts.bullet(f"{named(job.missing)} left no record", "yellow")
    if job.late is not None:
        cause = job.late.cause if job.late.excess_s > 0 else None
        yield awaited(_who(job.late, job.nodes), cause, list(_lateness(job.late, job)))
    if rows:
        yield Text()
        yield shown(rows)
    told = _told(job, cwd)
    if told.row_count:
        yield Text()
        yield told
    yield from (parts.bullet(note, parts.QUIET) for note in job.notes)


def size(job: JobFacts) -> str:
    """`8 ranks on 2 nodes`."""
    nodes = f" on {len(job.nodes)} nodes" if len(job.nodes) > 1 else ""
    return f"{words.count(job.world, 'rank')}{nodes}"


def row(rank: RankFacts, job: JobFacts) -> Row:
    """A rank's phases with its waiting told apart from moving, where exchanges were matched."""
    return Row(
        name=str(rank.rank),
        node=rank.node,
        step_s=rank.mean_s,
        seconds=dict(_seconds(rank)) if rank.steps else {},
        steps=rank.steps,
        last=rank.last / rank.matched if rank.matched else None,
        mark=LATE if job.late is not None and _is_late(rank, job.late) else "",
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


def _is_late(rank: RankFacts, late: LateRank) -> bool:
    return rank.node == late.node if late.whole_node else rank.rank == late.rank


def _who(late: LateRank, nodes: Sequence[str]) -> str:
    node = short(set(nodes)).get(late.node, late.node)
    if late.whole_node:
        return f"all of {node}, most for rank {late.rank}"
    return f"rank {late.rank}" + (f" ({node})" if len(nodes) > 1 else "")


def _lateness(late: LateRank, job: JobFacts) -> Iterator[str]:
    last = f"last to {words.percent(late.last)} of {words.count(job.matched, 'exchange')}"
    behind = f"{words.seconds(late.behind_s)} a step behind"
    yield f"{last}, {behind}; {words.percent(late.caused)} of all waiting"
    yield from late.why.split("; ")
    if late.saved_s > 0:
        yield f"if it came when the others do, all would take {words.seconds(late.saved_s)} a step less"


def awaited(rank: str, cause: Bottleneck | None, because: Sequence[str]) -> RenderableType:
    """Whom the others wait for and why, in words."""
    why = f": {LONGER[cause]}" if cause is not None else ""
    told = f"The others wait for {harmless(rank)}{why}"
    return Group(Text(told, style="bold yellow", overflow="fold"), *map(parts.bullet, because))


def endings(job: JobFacts) -> Iterator[str]:
    """Ranks that ended badly or hang, those in one place together, the fewest first."""
    groups: dict[str, list[RankFacts]] = {}
    for rank in job.ranks:
        told = [rank.ended or "", f"in {SINCE.sub('', rank.inside)}" if rank.inside else ""]
        if any(told):
            groups.setdefault(", ".join(filter(None, told)), []).append(rank)
    ordered = sorted(groups.items(), key=lambda group: (len(group[1]), bool(_since(group[1]))))
    for told_once, ranks in ordered[:GROUPS]:
        yield f"{named([rank.rank for rank in ranks])}: {told_once}{_since(ranks)}"
    if len(ordered) > GROUPS:
        yield f"and {words.count(sum(len(ranks) for _, ranks in ordered[GROUPS:]), 'more rank')}"


def _since(ranks: Sequence[RankFacts]) -> str:
    """For how long the first of them has been where it is: in a collective that is about as long for all."""
    found = [SINCE.search(rank.inside or "") for rank in ranks]
    longest_s = max((float(since[1]) for since in found if since), default=0.0)
    return f", for {longest_s:.0f} s" if longest_s else ""


def _told(job: JobFacts, cwd: str) -> Table:
    """What there is to say of all of them, a line each."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True, style=parts.QUIET)
    table.add_column(ratio=1, overflow="fold")
    if job.matched and job.late is None:
        table.add_row("late", f"no rank in particular{_taking_turns(job)}")
    if job.exchange is not None:
        for label, text in exchange(job.exchange, cwd):
            table.add_row(label, harmless(text))
    if job.skew:
        table.add_row("waiting", Levels(job.skew))
    if job.scale:
        table.add_row("speedup", harmless(scale(job.scale)))
    if len(job.nodes) > 1 and job.clock_error_s is not None:
        error = words.seconds(job.clock_error_s)
        table.add_row("clocks", f"times of different nodes can be off by {error}")
    if job.attempt:
        table.add_row("restarts", f"{job.attempt:,} before this attempt, by the launcher")
    return table


def _taking_turns(job: JobFacts) -> str:
    """What ranks that are late by turns do longer."""
    total_s = sum(job.waits.values())
    ordered = sorted(job.waits.items(), key=lambda entry: -entry[1])
    told = [
        f"{cause.value} {words.percent(value_s / total_s)}"
        for cause, value_s in ordered[:CAUSES]
        if value_s > 0
    ]
    return f": rank {job.shown} waits for what takes others longer, {', '.join(told)}" if told else ""


def scale(points: Sequence[ScalePoint]) -> str:
    """What more ranks bring against one, and what holds the last of them up."""
    told = ", ".join(_point(point) for point in points if point.ranks > 1)
    last = points[-1]
    return f"of one rank: {told}; with {words.count(last.ranks, 'rank')}, {last.because}"


def _point(point: ScalePoint) -> str:
    efficiency = words.percent(point.speedup.likely / point.ranks)
    return f"{point.ranks:,} ranks {words.times(point.speedup.likely)} ({efficiency})"


def exchange(found: ExchangeFacts, cwd: str) -> Iterator[tuple[str, str]]:
    """What the ranks exchange in a step: how much, how fast, and what of it is waited for."""
    often = abs(found.exchanges - 1) > OFTEN
    collective = "bucket" if found.kind == DDP else "collective"
    much = [
        f"{words.size(found.bytes)} a step",
        f"{words.figures(found.exchanges)} exchanges" if often else "",
        words.count(round(found.buckets), collective) if found.buckets >= 1 else "",
        _rate(found),
    ]
    place = f"at {words.place(found.at, cwd)}" if found.at else ""
    yield "exchange", f"{found.kind}: {', '.join(filter(None, [*much, place]))}"
    hidden = f"{words.percent(found.hidden)} hidden by computing"
    exposed, waiting = (words.seconds(value_s) for value_s in (found.exposed_s, found.waiting_s))
    yield "", f"takes {words.seconds(found.busy_s)}: {hidden}, {exposed} exposed, {waiting} waiting"
    if len(found.by_kind) > 1:
        kinds = sorted(found.by_kind.items(), key=lambda entry: -entry[1][2])
        yield "", ", ".join(_kind(name, *figures) for name, figures in kinds if figures[0] > 0)


def _rate(found: ExchangeFacts) -> str:
    """How fast it went, and what the link can do where `perfdoctor net` measured it."""
    if not found.bus_bytes_per_s:
        return ""
    able = f" of the {words.size(found.link_bytes_per_s)}/s measured" if found.link_bytes_per_s else ""
    return f"bus bandwidth {words.size(found.bus_bytes_per_s)}/s{able}"


def _kind(name: str, calls: float, moved_bytes: int, taken_s: float) -> str:
    return f"{words.figures(calls)} {name} of {words.size(moved_bytes / calls)}: {words.seconds(taken_s)}"


class Levels:
    """Shares over time as one line of blocks, the largest of them full, and the range they span."""

    def __init__(self, shares: Sequence[float]) -> None:
        self._shares = shares

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw as many blocks as there are shares, or as there is room for their means."""
        low, high = words.percent(min(self._shares)), words.percent(max(self._shares))
        told = f"{low} to {high} of the time, begin to end"
        beside = options.max_width >= ROOM
        cells = min(len(self._shares), options.max_width - (len(told) + len(APART)) * beside)
        bounds = [round(cell * len(self._shares) / cells) for cell in range(cells + 1)]
        means = [fmean(self._shares[first:last]) for first, last in pairwise(bounds)]
        full = max(FULL, *means)
        blocks = "".join(LEVELS[min(int(mean / full * len(LEVELS)), len(LEVELS) - 1)] for mean in means)
        yield Text.assemble((blocks, "blue"), APART if beside else "\n", told)
