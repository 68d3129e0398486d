"""Training in several processes, or on several devices of one: what was set up, and what it costs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from perfdoctor.analysis.called import settled
from perfdoctor.analysis.records import location, number, positive, whole
from perfdoctor.model import Location, Phase, StepFacts
from perfdoctor.recorded import RankRecords

NS_PER_S = 1e9
BACKWARD = 2.0  # times a forward pass
PYTHON = re.compile(r"python[\d.]*")


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


def exchanging(step: StepFacts, parallel: ParallelFacts) -> tuple[float, float, float]:
    """Shares of the step that go into exchanging gradients: at least, likely, at most.

    torch counts what backward does not hide in its first ten passes and every hundredth: too few to rely on
    where ranks share cores. On a CPU there is a second estimate: backward computes twice what forward does
    (each product has two gradients), and the rest of it is the exchange. The truth is taken to lie between.
    """
    if parallel.exposed_s is None or step.mean_s <= 0:
        return 0.0, 0.0, 0.0
    forward, backward = step.share(Phase.FORWARD), step.share(Phase.BACKWARD)
    exchanges = min(parallel.synced, step.backwards_per_step)
    counted = min(exchanges * parallel.exposed_s / step.mean_s, backward)
    beyond = max(0.0, backward - BACKWARD * forward) if parallel.device == "cpu" else counted
    return min(counted, beyond), (counted + beyond) / 2, max(counted, beyond)


def searching(step: StepFacts, parallel: ParallelFacts) -> float:
    """Share of the step that goes into searching for unused parameters."""
    return min(1.0, parallel.search_s * parallel.synced / step.mean_s) if step.mean_s > 0 else 0.0


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
    """The command line that runs a script in so many processes of this host, as far as it can be told."""
    words = list(command)
    if words and PYTHON.fullmatch(words[0].rpartition("/")[2]):
        words = words[1:]
    if not words or not (words[0] == "-m" or words[0].endswith(".py")):
        words = ["train.py"]
    return shlex.join(["torchrun", "--nproc-per-node", str(processes), *words])


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None
