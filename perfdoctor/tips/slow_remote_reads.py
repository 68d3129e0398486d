"""Batches are late because their bytes come over a network, one request after the other.

## What it sees
The step waits for batches, and most of what a batch costs is waiting inside network code (sockets, TLS, HTTP
and object-store clients), on wall time that its CPU time does not explain. A server on the same machine
counts.

## By hand
Ask for many things at a time: more workers, a thread pool in `__getitems__(indices)`, or an asynchronous
client. Open one connection per worker and keep it (`requests.Session`, `urllib3.PoolManager(maxsize=...)`: a
pool of 10 connections allows 10 requests at once). Pack small files into large ones (tar, Parquet,
WebDataset), and fit read-ahead to the size of a read. Keep what is read again on a local disk.

## When not
Where the link itself is full, more requests do not help: fewer bytes do, or a local copy.
"""

from __future__ import annotations

from perfdoctor.analysis.stepmodel import StepModel
from perfdoctor.batch import BatchFacts, Stage, waits
from perfdoctor.catalogue import tip
from perfdoctor.change import Change, Effort, Estimate
from perfdoctor.model import Advice, Bottleneck, CpuFacts, LoaderFacts, NetworkFacts, Phase, StepFacts
from perfdoctor.tips.too_few_workers import KNEE, most_workers

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
MAP_STYLE = "ThreadPoolExecutor(8).map(self.fetch, indices)  # in __getitems__(self, indices)"
ITERABLE = "ThreadPoolExecutor(8).map(self.fetch, names)  # in __iter__, some dozens of names at a time"
LITTLE_BYTES = 1e4  # per second: any machine hears that much; a server on the same one is not counted
BUSY_LINK_BYTES = 100e6  # per second: a gigabit link is full at 125 MB/s


@tip(
    title="Fetch remote items side by side, over connections that stay open",
    bottleneck=Bottleneck.NETWORK,
    effort=Effort.LINES,
)
def slow_remote_reads(
    step: StepFacts,
    loader: LoaderFacts,
    batch: BatchFacts,
    network: NetworkFacts,
    cpu: CpuFacts,
    model: StepModel,
) -> Advice | None:
    """The line that fetches, where the step waits for batches that wait for a network."""
    share = batch.share(Stage.FETCHING)
    lines = batch.lines(Stage.FETCHING)
    if step.share(Phase.DATA_WAIT) < NOTICEABLE or share < LARGE or not lines:
        return None
    if loader.batch_cpu_s > ON_CPU * loader.batch_s:
        return None
    received = network.received_bytes_per_s or 0.0
    full = received >= BUSY_LINK_BYTES
    cpu_ms = loader.batch_cpu_s * 1e3
    opens = batch.connecting >= CONNECTING or any(sign in (lines[0].at.text or "") for sign in OPENS)
    low, likely, high = (share * removed for removed in REMOVED)
    workers = model.knee(most_workers(model, cpu), KNEE)
    outside = f"{received / 1e6:.2g} MB/s" if received >= LITTLE_BYTES else "hardly anything"
    how = (
        f"{received / 1e6:.0f} MB/s came in: the link may be full"
        if full
        else f"{outside} came in from other machines: answers are waited for, not bytes"
    )
    return Advice(
        because=(
            waits(step),
            f"{share:.0%} of a batch's {batch.batch_s * 1e3:.1f} ms passes in network code",
            f"the CPU works for {cpu_ms:.1f} ms of it",
            how,
            *(("a connection is opened for each request",) if opens else ()),
        ),
        change=Change(batch=Estimate(0.0 if full else low, low if full else likely, high)),
        at=tuple(line.at for line in lines[:3]),
        tweak=f"--workers {workers}" if workers > loader.num_workers and not loader.iterable else None,
        code=f"{SESSION}\n{ITERABLE if loader.iterable else MAP_STYLE}",
    )
