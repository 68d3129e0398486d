"""Training in many processes: each rank's step, what the ranks exchange, and who waits for whom.

A rank's time inside a collective is *waiting* as long as another rank has not come, and *moving* from then
on. Only what no computing hides counts: that is the phase `grad_sync` of the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from perfdoctor.model.concluded import Bottleneck, Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase
from perfdoctor.model.note import Note, Remark

DDP = "DistributedDataParallel"
LISTED = 6  # runs of numbers in a list of ranks; more are counted


@dataclass(frozen=True)
class RankFacts:
    """One rank, between its first step and its last. Seconds are means per step."""

    rank: int
    node: str  # the name of its host
    steps: int
    mean_s: float
    seconds: Mapping[Phase, float]  # they add up to `mean_s`
    waiting_s: float = 0.0  # in collectives, for ranks that came later; part of `grad_sync`
    moving_s: float = 0.0  # the rest of `grad_sync`
    matched: int = 0  # exchanges that were found on every rank of a group that it is in
    last: int = 0  # of those, that this rank came to last
    behind_s: float = 0.0  # mean of how much later than the median rank it came to those
    cores: float | None = None  # CPU cores that its process and its loader workers kept busy
    data_cores: float | None = None  # of these, the workers
    delay: float | None = None  # seconds its threads were ready but had no core, per second of time
    core_list: str | None = None  # the numbers of the cores that it may run on: "0-3,8"
    ended: str | None = None  # how it ended, where it did not end well: "killed by signal 9", "exit code 7"
    inside: str | None = None  # what it was in when the recording stopped, where that tells: "all_reduce ..."


def rank_list(ranks: Iterable[int]) -> str:
    """`rank 3`, `ranks 0, 2–7`; the beginning of a long list, and how many more."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    listed = ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs[:LISTED])
    more = sum(map(len, runs[LISTED:]))
    return f"rank{'s' if sum(map(len, runs)) > 1 else ''} {listed}" + (f" and {more:,} more" if more else "")


def held_against(others: int) -> str:
    """What a rank is compared with: the median of the others, or the only other one."""
    return "the other rank" if others == 1 else "the median rank"


@dataclass(frozen=True)
class Straggler:
    """The rank that the others wait for most, and what it does longer than they do."""

    rank: int
    ranks: int  # that are compared, it among them
    matched: int  # collectives that were found on all of them
    last: float  # share of those that it came to last
    caused: float  # share of all waiting that was for it
    wait: float  # share of its time that the median other rank waits, hidden by nothing
    cause: Bottleneck  # what it does longest in excess of the median rank
    excess_s: float  # that excess, per step; over the whole of each trace where not all of them mark steps
    # What only traces leave open:
    per_step: bool = True  # whether the excess is
    file: int | None = None  # its place among the traces, from 1, where its own does not say its rank
    # What only the timers of a run tell, not the traces of its ranks:
    node: str = ""  # the name of its host
    nodes: int = 1  # that the ranks are on
    behind_s: float | None = None  # per step: how much later than the median rank it comes
    phase: Phase | None = None  # which of its phases takes longer than the median rank's, most of all
    why: str = ""  # the excess in words, with numbers, and what else is different: cores, memory, node
    saved_s: float | None = None  # per step: how much sooner all would go on if it came when the others do
    step_s: float = 0.0  # of the median other rank
    whole_node: bool = False  # `last` and `caused` are those of all ranks of its node
    crowded: bool = False  # what it takes longer is explained by others who have its cores
    strangers: float = 0.0  # share of its node's usable cores that others than ranks keep busy
    more_data: float | None = None  # times the median rank's samples, or elements of as many; None: not more
    lines: tuple[Location, ...] = ()  # at which it takes longer, longest first
    alone: tuple[Location, ...] = ()  # those of them that take the others next to nothing
    dealt: tuple[Location, ...] = ()  # that divide the data among the ranks, where its part takes longer

    @property
    def name(self) -> str:
        """What it is called: "rank 3", or "file 4" where its trace does not say the rank."""
        return f"rank {self.rank}" if self.file is None else f"file {self.file}"

    @property
    def times_last(self) -> int:
        """Collectives that it came to last."""
        return round(self.last * self.matched)

    @property
    def saved(self) -> float | None:
        """The share of the step that goes if it comes when the others do; None where that is not known."""
        if self.saved_s is None or self.step_s <= 0:
            return None
        return min(1.0, max(0.0, self.saved_s / self.step_s))

    @property
    def uneven(self) -> float:
        """The share of the step that ranks wait for it because it is given more to compute than they are.

        With the same for all it would go: they would compute what it did, and none wait.
        """
        return self.saved or 0.0 if self.more_data is not None and not self.crowded else 0.0

    @property
    def charged_to(self) -> Bottleneck:
        """The class of the time that goes when it comes with the others: of its cause, if not uneven."""
        return Bottleneck.NETWORK if self.uneven else self.cause

    def includes(self, rank: RankFacts) -> bool:
        """Whether that rank is it, or on its node where that is late as a whole."""
        return rank.node == self.node if self.whole_node else rank.rank == self.rank


@dataclass(frozen=True)
class WaitsOverTime:
    """Who waits for whom, in parts of the run. `edges_s` count from the first exchange that is compared."""

    ranks: tuple[int, ...]
    edges_s: tuple[float, ...]
    waited: tuple[tuple[float, ...], ...]  # of each rank: the share of each part that it waited
    awaited: tuple[tuple[float, ...], ...]  # and the share that another rank waited for it, on average


@dataclass(frozen=True)
class GradientSyncFacts:
    """What the ranks synchronise in a step. Times are of the median rank, of two of the one that waits."""

    exposed: float  # share of the shown rank's step that it blocks; waits for stragglers left out if known
    all: float  # share of that step that it takes, hidden behind computing or not
    each_s: float | None  # of the shown rank: what is exposed, per step
    # What only a run tells, not a trace of one rank; of a device's window, no more than this and `at`:
    kind: str | None = None  # what the model is wrapped in, or the collective that takes most
    ranks: int = 1
    exchanges: float = 0.0  # syncs per step
    buckets: float = 0.0  # collectives per step
    bytes: int = 0  # per step and rank, handed to collectives
    busy_s: float = 0.0  # from the first collective's begin to the last one's end, hidden or not
    moving_s: float = 0.0  # of that, the transfer: with every rank there
    exposed_s: float = 0.0  # not hidden behind computing, waits for stragglers left out
    waiting_s: float = 0.0  # not hidden, for stragglers
    hidden: float = 0.0  # share of busy_s that computing hides
    bus_bytes_per_s: float | None = None  # of the transfer, by the ring's law
    by_kind: Mapping[str, tuple[float, int, float]] = field(default_factory=dict)  # calls, bytes, seconds
    at: Location | None = None
    # Of collectives that the script calls itself beside those of DistributedDataParallel: what share of the
    # time that is not hidden, how many a step, of how many bytes, the line where most of that time goes.
    own: float = 0.0
    own_calls: float = 0.0
    own_bytes: int = 0
    called_at: Location | None = None
    link_bytes_per_s: float | None = None  # what the link between these nodes can do, where it was measured


@dataclass(frozen=True)
class ScalePoint:
    """What to expect of another number of ranks, each with as many samples a step as now."""

    ranks: int
    step_s: float
    speedup: Gain  # of samples per second, against one rank
    bound: Bottleneck  # what most of the step is then
    because: Note  # such as that the gradient sync takes 41 % of the step


@dataclass(frozen=True)
class JobFacts:
    """All ranks that trained together. `ranks` are in order; `missing` left no record."""

    world: int
    ranks: tuple[RankFacts, ...]
    nodes: tuple[str, ...]
    missing: tuple[int, ...] = ()
    straggler: Straggler | None = None
    gradient_sync: GradientSyncFacts | None = None
    skew: tuple[float, ...] = ()  # over time: share of each part of the run that the median rank waited
    matched: int = 0  # exchanges that were found on every rank, or on all of the group that tells who is late
    shown: int = 0  # the rank that the rest of the report is about
    waits: Mapping[Bottleneck, float] = field(default_factory=dict)  # its waiting, by what made others late
    contention_s: float = 0.0  # of its moving, per step: its threads had no core, for other programs had them
    scale: tuple[ScalePoint, ...] = ()  # fewest ranks first
    attempt: int = 0  # restarts by the launcher before this one
    clock_error_s: float | None = None  # of times of different nodes against each other; None on one node
    notes: tuple[Remark, ...] = ()
