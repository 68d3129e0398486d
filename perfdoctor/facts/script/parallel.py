"""Tells how training is spread over processes and devices, and what that costs: ParallelFacts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from statistics import median

from perfdoctor.facts.decode import location, positive
from perfdoctor.facts.given import AllRanks
from perfdoctor.facts.ranks.gradient_sync import startup_share
from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.module_calls import settled
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.launchers import PYTHON, counting, launcher_of
from perfdoctor.model.measured import Location, Phase, StepFacts
from perfdoctor.model.ranks import GradientSyncFacts, RankFacts
from perfdoctor.runs.events import absent
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.ranks import ProcessGroupEvent, WrapperEvent
from perfdoctor.wire.events.script import SettingsEvent
from perfdoctor.wire.events.training import ModuleCallsEvent

NS_PER_S = 1e9
BACKWARD = 2.0  # times a forward pass
# Times the search that is timed after a forward pass: backward notes down each parameter that it meets,
# which goes with their number, too. Together it was 1.6 to 3.7 times the search in a model of 450
# parameters.
SEARCHED = 2.7
RUNNERS = ("uv", "poetry", "pdm", "hatch")  # `... run COMMAND`


@dataclass(frozen=True)
class ParallelFacts:
    """How a model is spread over processes and devices. Gradient sync is DistributedDataParallel's."""

    wrapper: str | None  # the class, "FSDP" of fully_shard, or None
    wrapped_at: Location | None
    devices: int  # that this process can see
    device_ids: int  # that its wrapper uses
    device: str  # the kind that trains
    world: int  # processes
    backend: str | None
    group_at: Location | None  # the line of init_process_group
    backward_at: Location | None
    find_unused: bool = False
    synced: float = 0.0  # passes per update that sync gradients
    unsynced: float = 0.0  # passes per update that do not
    exposed_s: float | None = None  # of one gradient sync, not hidden behind backward
    unused: int | None = None  # parameters that the last searched pass left without gradient
    search_s: float = 0.0  # of one search
    own: RankFacts | None = None  # this rank among the others
    gradient_sync: GradientSyncFacts | None = None  # of all ranks, where it was recorded
    contention_s: float = 0.0  # of the gradient sync, per step: other programs had the cores that it needs
    buffer_bytes: int = 0  # of the buffers that the first rank sends before each forward pass

    @property
    def measured(self) -> bool:
        """Whether each gradient sync was timed."""
        return self.own is not None and self.gradient_sync is not None


def syncing(step: StepFacts, parallel: ParallelFacts) -> tuple[float, float, float]:
    """Shares of the step that go into syncing gradients: at least, likely, at most.

    Timed, it is what moved while nothing was computed at least; at most, waiting for other ranks goes with
    it, and what computing loses to a gradient sync behind it: on a CPU both want the same cores. Backward
    computes twice what forward does (each product has two gradients), and the rest of it is that loss, if it
    has as long a gradient sync behind it. Where the ranks' gradient syncs were not timed, torch's own
    count has to do: its first ten passes and every hundredth.
    """
    if step.mean_s <= 0:
        return 0.0, 0.0, 0.0
    forward, backward = step.share(Phase.FORWARD), step.share(Phase.BACKWARD)
    beyond = max(0.0, backward - BACKWARD * forward) if parallel.device == "cpu" else 0.0
    if parallel.own is not None and parallel.gradient_sync is not None:
        sync, rank = parallel.gradient_sync, parallel.own
        hidden = max(0.0, sync.busy_s - sync.exposed_s - sync.waiting_s) / step.mean_s
        moving, waiting = rank.moving_s / step.mean_s, rank.waiting_s / step.mean_s
        slowed = min(beyond, hidden)
        return moving, moving + (waiting + slowed) / 2, moving + waiting + slowed
    if parallel.exposed_s is None:
        return 0.0, 0.0, 0.0
    syncs = min(parallel.synced, step.backwards_per_step)
    counted = min(syncs * parallel.exposed_s / step.mean_s, backward)
    beyond = beyond if parallel.device == "cpu" else counted
    return min(counted, beyond), (counted + beyond) / 2, max(counted, beyond)


def searching(step: StepFacts, parallel: ParallelFacts) -> float:
    """Share of the step that goes into searching for unused parameters, and noting down the others."""
    searched_s = SEARCHED * parallel.search_s * parallel.synced
    return min(1.0, searched_s / step.mean_s) if step.mean_s > 0 else 0.0


def one_more(step: StepFacts, parallel: ParallelFacts) -> float:
    """Share of the step that one more small collective in each gradient sync is, where those were timed.

    Each collective has its part of what is waited for; of larger ones, what does not go with their size.
    """
    sync = parallel.gradient_sync
    if parallel.own is None or sync is None or not sync.buckets or step.mean_s <= 0:
        return 0.0
    each = startup_share(sync.bytes / sync.buckets) / sync.buckets
    moving_s = max(0.0, parallel.own.moving_s - parallel.contention_s)
    return min(1.0, moving_s * each * sync.exchanges / step.mean_s)


@fact
def parallel_facts(rank: RankRecords, ranks: AllRanks | None) -> ParallelFacts | None:
    """How the work is spread, or None in one process that sees at most one device."""
    wrappers, groups, settings = rank.of(WrapperEvent), rank.of(ProcessGroupEvent), rank.of(SettingsEvent)
    devices = max((event.devices or 0 for event in settings), default=0)
    if not wrappers and not groups and devices < 2:
        return None
    wrapper = wrappers[-1] if wrappers else absent(WrapperEvent)
    group = groups[-1] if groups else absent(ProcessGroupEvent)
    samples = [sample for sample in settled(rank) if sample.synced + sample.unsynced]
    last = samples[-1] if samples else absent(ModuleCallsEvent)
    sync_ns = [positive(sample.comm_ns) for sample in samples]
    exposed_ns = max(0.0, (last.comm_ns or 0.0) - (last.hidden_ns or 0.0))
    searches = last.search_calls
    return ParallelFacts(
        wrapper=wrapper.kind,
        wrapped_at=location(wrapper.at),
        devices=devices,
        device_ids=wrapper.devices,
        device=settings[-1].device or "cpu" if settings else "cpu",
        world=wrapper.world or group.world or 1,
        backend=wrapper.backend or group.backend,
        group_at=location(group.at),
        backward_at=location(settings[-1].at) if settings else None,
        find_unused=wrapper.find_unused and not wrapper.static_graph,
        synced=median(sample.synced for sample in samples) if samples else 0.0,
        unsynced=median(sample.unsynced for sample in samples) if samples else 0.0,
        exposed_s=exposed_ns / NS_PER_S if any(sync_ns) else None,
        unused=max((sample.unused or 0 for sample in samples), default=None),
        search_s=last.search_s / searches if searches else 0.0,
        own=ranks.shown if ranks is not None else None,
        gradient_sync=ranks.job.gradient_sync if ranks is not None else None,
        contention_s=ranks.job.contention_s if ranks is not None else 0.0,
        buffer_bytes=wrapper.buffer_bytes,
    )


def torchrun(command: Sequence[str], processes: int) -> str:
    """The command line that runs a script in so many processes of each host, as far as it can be told."""
    words = list(command)
    launcher = launcher_of(words, counting())
    if launcher is not None:
        return shlex.join(_with_value(words, launcher[0].processes, str(processes), launcher[1]))
    through = len(words) > 1 and words[0].rpartition("/")[2] in RUNNERS and words[1] == "run"
    before, words = (words[:2], words[2:]) if through else ([], words)
    if words and PYTHON.fullmatch(words[0].rpartition("/")[2]):
        words = words[1:]
    if not words or not (words[0] == "-m" or words[0].endswith(".py")):
        before, words = [], ["train.py"]
    return shlex.join([*before, "torchrun", "--nproc-per-node", str(processes), *words])


def _with_value(words: Sequence[str], flags: Sequence[str], value: str, place: int) -> list[str]:
    """The words with the value of an option set anew, or added at `place`."""
    for at, word in enumerate(words):
        name, equals, _ = word.partition("=")
        if name in flags:
            option = [f"{name}={value}"] if equals else [name, value]
            return [*words[:at], *option, *words[at + 2 - len(equals) :]]
    return [*words[:place], flags[0], value, *words[place:]]


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None
