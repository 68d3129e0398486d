"""Training in several processes, or on several devices of one: what was set up, and what it costs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from perfdoctor.analysis.called import settled
from perfdoctor.analysis.exchange import setting_out
from perfdoctor.analysis.records import location, number, positive, whole
from perfdoctor.job import ExchangeFacts, RankFacts
from perfdoctor.model import Location, Phase, StepFacts
from perfdoctor.recorded import RankRecords

NS_PER_S = 1e9
BACKWARD = 2.0  # times a forward pass
# Times the search that is timed after a forward pass: backward notes down each parameter that it meets,
# which goes with their number, too. Together it was 1.6 to 3.7 times the search in a model of 450
# parameters.
SEARCHED = 2.7
PYTHON = re.compile(r"python[\d.]*")
RUNNERS = ("uv", "poetry", "pdm", "hatch")  # `... run COMMAND`
# Programs that start several processes: the option that says how many, and the words that name the program.
PER_NODE = ("--nproc-per-node", "--nproc_per_node")
LAUNCHERS: Sequence[tuple[Sequence[str], Sequence[str]]] = (
    (PER_NODE, ("torchrun",)),
    (PER_NODE, ("-m", "torch.distributed.run")),
    (("--num_processes", "--num-processes"), ("accelerate", "launch")),
)


@dataclass(frozen=True)
class ParallelFacts:
    """How a model is spread over processes and devices. Exchange is that of DistributedDataParallel's."""

    wrapper: str | None  # "DistributedDataParallel", "DataParallel", "FSDP" or None
    wrapped_at: Location | None
    devices: int  # that this process can see
    device_ids: int  # that its wrapper uses
    device: str  # the kind that trains
    world: int  # processes
    backend: str | None
    group_at: Location | None  # the line of init_process_group
    backward_at: Location | None
    find_unused: bool = False
    synced: float = 0.0  # passes per update that exchange gradients
    unsynced: float = 0.0  # passes per update that do not
    exposed_s: float | None = None  # of one exchange, not hidden behind backward
    unused: int | None = None  # parameters that the last searched pass left without gradient
    search_s: float = 0.0  # of one search
    own: RankFacts | None = None  # this rank among the others
    exchange: ExchangeFacts | None = None  # what the ranks exchange, where that was recorded
    crowded_s: float = 0.0  # of the exchange, per step: other programs had the cores that it needs

    @property
    def measured(self) -> bool:
        """Whether each exchange of gradients was timed."""
        return self.own is not None and self.exchange is not None


def exchanging(step: StepFacts, parallel: ParallelFacts) -> tuple[float, float, float]:
    """Shares of the step that go into exchanging gradients: at least, likely, at most.

    Timed, it is what moved while nothing was computed at least; at most, waiting for other ranks goes with
    it, and what computing loses to an exchange behind it: on a CPU both want the same cores. Backward
    computes twice what forward does (each product has two gradients), and the rest of it is that loss, if it
    has as long an exchange behind it. Where the ranks' exchanges were not timed, torch's own count has to
    do: its first ten passes and every hundredth.
    """
    if step.mean_s <= 0:
        return 0.0, 0.0, 0.0
    forward, backward = step.share(Phase.FORWARD), step.share(Phase.BACKWARD)
    beyond = max(0.0, backward - BACKWARD * forward) if parallel.device == "cpu" else 0.0
    if parallel.own is not None and parallel.exchange is not None:
        exchange, own = parallel.exchange, parallel.own
        hidden = max(0.0, exchange.busy_s - exchange.exposed_s - exchange.waiting_s) / step.mean_s
        moving, waiting = own.moving_s / step.mean_s, own.waiting_s / step.mean_s
        slowed = min(beyond, hidden)
        return moving, moving + (waiting + slowed) / 2, moving + waiting + slowed
    if parallel.exposed_s is None:
        return 0.0, 0.0, 0.0
    exchanges = min(parallel.synced, step.backwards_per_step)
    counted = min(exchanges * parallel.exposed_s / step.mean_s, backward)
    beyond = beyond if parallel.device == "cpu" else counted
    return min(counted, beyond), (counted + beyond) / 2, max(counted, beyond)


def searching(step: StepFacts, parallel: ParallelFacts) -> float:
    """Share of the step that goes into searching for unused parameters, and noting down the others."""
    searched_s = SEARCHED * parallel.search_s * parallel.synced
    return min(1.0, searched_s / step.mean_s) if step.mean_s > 0 else 0.0


def one_more(step: StepFacts, parallel: ParallelFacts) -> float:
    """Share of the step that one more small collective in each exchange is, where exchanges were timed.

    Each collective has its part of what is waited for; of larger ones, what does not go with their size.
    """
    if parallel.own is None or parallel.exchange is None or not parallel.exchange.buckets or step.mean_s <= 0:
        return 0.0
    exchange = parallel.exchange
    each = setting_out(exchange.bytes / exchange.buckets) / exchange.buckets
    moving_s = max(0.0, parallel.own.moving_s - parallel.crowded_s)
    return min(1.0, moving_s * each * exchange.exchanges / step.mean_s)


def parallel_facts(records: RankRecords) -> ParallelFacts | None:
    """How the work is spread, or None in one process that sees at most one device."""
    wrappers, groups, settings = records.of("wrapper"), records.of("process_group"), records.of("settings")
    devices = max((whole(event.get("devices")) or 0 for event in settings), default=0)
    if not wrappers and not groups and devices < 2:
        return None
    wrapper = wrappers[-1] if wrappers else {}
    group = groups[-1] if groups else {}
    looks = [look for look in settled(records) if number(look.get("synced")) + number(look.get("unsynced"))]
    last = looks[-1] if looks else {}
    exchange_ns = [positive(look.get("comm_ns")) for look in looks]
    searches = number(last.get("search_calls"))
    return ParallelFacts(
        wrapper=_word(wrapper.get("kind")),
        wrapped_at=location(wrapper.get("at")),
        devices=devices,
        device_ids=whole(wrapper.get("devices")) or 0,
        device=_word(settings[-1].get("device")) or "cpu" if settings else "cpu",
        world=whole(wrapper.get("world")) or whole(group.get("world")) or 1,
        backend=_word(wrapper.get("backend")) or _word(group.get("backend")),
        group_at=location(group.get("at")),
        backward_at=location(settings[-1].get("at")) if settings else None,
        find_unused=bool(wrapper.get("find_unused")) and not wrapper.get("static_graph"),
        synced=median(number(look.get("synced")) for look in looks) if looks else 0.0,
        unsynced=median(number(look.get("unsynced")) for look in looks) if looks else 0.0,
        exposed_s=max(0.0, number(last.get("comm_ns")) - number(last.get("hidden_ns"))) / NS_PER_S
        if any(exchange_ns)
        else None,
        unused=max((whole(look.get("unused")) or 0 for look in looks), default=None),
        search_s=number(last.get("search_s")) / searches if searches else 0.0,
    )


def torchrun(command: Sequence[str], processes: int) -> str:
    """The command line that runs a script in so many processes of each host, as far as it can be told."""
    words = list(command)
    for flags, insert in LAUNCHERS:
        place = _after(words, insert)
        if place is not None:
            return shlex.join(_with_value(words, flags, str(processes), place))
    through = len(words) > 1 and words[0].rpartition("/")[2] in RUNNERS and words[1] == "run"
    before, words = (words[:2], words[2:]) if through else ([], words)
    if words and PYTHON.fullmatch(words[0].rpartition("/")[2]):
        words = words[1:]
    if not words or not (words[0] == "-m" or words[0].endswith(".py")):
        before, words = [], ["train.py"]
    return shlex.join([*before, "torchrun", "--nproc-per-node", str(processes), *words])


def _after(words: Sequence[str], launcher: Sequence[str]) -> int | None:
    """Where the options of a launcher begin, if the command has it."""
    for start in range(len(words) - len(launcher) + 1):
        found = [words[start].rpartition("/")[2], *words[start + 1 : start + len(launcher)]]
        if found == list(launcher):
            return start + len(launcher)
    return None


def _with_value(words: Sequence[str], flags: Sequence[str], value: str, place: int) -> list[str]:
    """The words with the value of an option set anew, or added at `place`."""
    for at, word in enumerate(words):
        name, equals, _ = word.partition("=")
        if name in flags:
            told = [f"{name}={value}"] if equals else [name, value]
            return [*words[:at], *told, *words[at + 2 - len(equals) :]]
    return [*words[:place], flags[0], value, *words[place:]]


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None
