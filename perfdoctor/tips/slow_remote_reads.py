"""Batches arrive late because they are fetched over a network, one request after the other.

## What it sees
The step waits for batches, and most of a batch's cost is waiting inside network code (sockets, TLS, HTTP and
object-store clients): wall time that its CPU time does not explain. A server on the same machine counts. The
bytes received, compared with what the link can carry, show whether responses are slow to arrive (latency) or
the link is full (bandwidth); the kernel's count of TCP connections shows whether they are reopened again and
again. Both counts are for the whole machine.

## By hand
Request many things at a time: more workers, a thread pool in `__getitems__(indices)`, or an asynchronous
client. Open one connection per worker and keep it (`requests.Session`, `urllib3.PoolManager(maxsize=...)`: a
pool of 10 connections allows 10 requests at once). Pack small files into large ones (tar, Parquet,
WebDataset), and match read-ahead to the size of a read. Keep on a local disk what is read again.

## When not
Where the link itself is full, more requests do not help: fewer bytes do, or a local copy. A link counts as
full from 70 % of the card's rate. The capacity of a virtual card is not known; the report says so if it
receives much.
"""

from __future__ import annotations

from perfdoctor.facts.host.network import Link, LinkLimit, NetworkFacts
from perfdoctor.facts.predict.step_model import StepModel
from perfdoctor.facts.predict.worker_count import good_workers
from perfdoctor.facts.user_source.library_table import called
from perfdoctor.model.batch import BatchFacts, Stage, waits
from perfdoctor.model.change import Change, Effort, Estimate
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import CpuFacts, LineCost, LoaderFacts, Phase, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.10  # share of step time that waits
LARGE = 0.40  # of a batch's cost
ON_CPU = 0.6  # of the batch's cost; above it the batches compute, whatever they fetch
CONNECTING = 0.15  # of the time spent fetching: with connections kept open it is next to nothing
# Library calls that open a connection each time (their documentation: a Session or pool keeps it open).
OPENS = ("requests.get(", "requests.post(", "urlopen(", "urlretrieve(", "HTTPConnection(", "httpx.get(")
# Of the time spent fetching that goes: reused connections save one of two round trips and more, and requests
# side by side wait together: of n at a time, 1/n is left (a thread pool's usual 4 to 10).
REMOVED = (0.3, 0.75, 0.9)
SESSION = "self.session = requests.Session()  # once per worker"
CLIENT = "...  # open one client per worker, on first use, and keep it"
MAP_STYLE = "ThreadPoolExecutor(8).map(self.fetch, indices)  # in __getitems__(self, indices)"
ITERABLE = "ThreadPoolExecutor(8).map(self.fetch, names)  # in __iter__, a few dozen names at a time"
REOPENED = 0.5  # connections a batch: workers that start and others on the machine open fewer
LOSSY = 0.01  # of the segments sent: TCP halves its rate at each loss, and short exchanges wait for a timer
LITTLE_BYTES = 1e4  # per second: any machine hears that much
LIMITED_BY = {
    LinkLimit.LATENCY: "the wait is for responses (latency), not for bandwidth",
    LinkLimit.BANDWIDTH: "it is full; fewer bytes or a local copy help, more requests do not",
    LinkLimit.UNKNOWN: "whether latency or bandwidth limits is not certain",
}


@tip(
    title="Fetch remote items in parallel, over connections kept open",
    bottleneck=Bottleneck.NETWORK,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
)
def slow_remote_reads(
    step: StepFacts,
    loader: LoaderFacts,
    batch: BatchFacts,
    network: NetworkFacts,
    cpu: CpuFacts,
    model: StepModel,
) -> Advice | None:
    """Names the line that fetches, where the step waits for batches that wait for a network."""
    share = batch.share(Stage.FETCHING)
    lines = batch.lines(Stage.FETCHING)
    if step.share(Phase.DATA_WAIT) < NOTICEABLE or share < LARGE or not lines:
        return None
    if loader.batch_cpu_s > ON_CPU * loader.batch_s:
        return None
    # Of the time: workers that fetch side by side take no more than all of it.
    fetching = min(1.0, share * loader.batch_s * loader.batches_per_step / step.mean_s)
    limit, room = network.link.limit(fetching), 1.0 - (network.link.used(fetching) or 0.0)
    low, likely, high = (share * removed for removed in REMOVED)
    removed = Estimate(low if limit is LinkLimit.LATENCY else 0.0, min(likely, share * room), high)
    workers = good_workers(model, cpu)
    more = workers > loader.num_workers and not loader.iterable and limit is not LinkLimit.BANDWIDTH
    opened = _opened(step, loader, batch, lines[0], network)
    kept = opened is None and network.opened_per_s is not None
    names = called(lines[0].at.statement)
    client = SESSION if any(name.startswith("requests.") for name in names) else CLIENT
    side_by_side = ITERABLE if loader.iterable else MAP_STYLE
    return Advice(
        because=(
            waits(step),
            f"{share:.0%} of a batch's {batch.batch_s * 1e3:.1f} ms is spent in network code",
            f"only {loader.batch_cpu_s * 1e3:.1f} ms of it is CPU time",
            f"{_came_in(network.link, fetching)}: {LIMITED_BY[limit]}",
            *filter(None, (opened, _lost(network))),
        ),
        change=Change(batch=removed),
        at=tuple(line.at for line in lines[:3]),
        tweak=f"--workers {workers}" if more else None,
        code=None if limit is LinkLimit.BANDWIDTH else side_by_side if kept else f"{client}\n{side_by_side}",
    )


def _came_in(link: Link, fetching: float) -> str:
    """The bytes received while batches were fetched, and their share of what the link can carry."""
    rate, used = link.rate(fetching), link.used(fetching)
    amount = f"{rate / 1e6:.0f}" if rate >= 1e7 else f"{rate / 1e6:.2g}"
    amount = f"{amount} MB/s" if rate >= LITTLE_BYTES else "almost nothing"
    if used is None or link.nominal_bytes_per_s is None:
        return f"{amount} received meanwhile from {'this machine' if link.loopback else 'other machines'}"
    return (
        f"{amount} received meanwhile, {used:.0%} of the {link.nominal_bytes_per_s * 8 / 1e9:g} Gbit/s link"
    )


def _opened(
    step: StepFacts, loader: LoaderFacts, batch: BatchFacts, line: LineCost, network: NetworkFacts
) -> str | None:
    """How often connections are opened, if not kept open: counted, or else by the line and the stacks."""
    if network.opened_per_s is not None and loader.batches_per_step:
        count = network.opened_per_s * step.mean_s / loader.batches_per_step
        times = f"{count:.0f}" if count >= 1 else f"{count:.1f}"
        return f"connections are not kept open: {times} opened per batch" if count >= REOPENED else None
    signs = batch.connecting >= CONNECTING or any(sign in (line.at.statement or "") for sign in OPENS)
    return "a connection is opened for each request" if signs else None


def _lost(network: NetworkFacts) -> str | None:
    lost = network.resent or 0.0
    return f"{lost:.1%} of TCP segments were retransmitted: packets get lost" if lost >= LOSSY else None
