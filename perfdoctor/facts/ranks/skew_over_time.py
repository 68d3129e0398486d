"""How the waiting of ranks for each other goes over the run: in parts of equally many exchanges."""

from __future__ import annotations

import numpy as np

from perfdoctor.facts.ranks.skew import Skew
from perfdoctor.facts.steps.boundaries import Floats, Ints
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.ranks import WaitsOverTime

PARTS = 40  # of the run: what fits into a line


def median_wait(skew: Skew) -> tuple[float, ...]:
    """The share of each part of the run that the median rank waited; of two, the one that waits."""
    parts = _parts(skew)
    if parts is None:
        return ()
    waited_s = np.quantile(parts.sums(skew.waiting_s), 0.5, axis=0, method="higher")
    return tuple(parts.shares(waited_s * skew.stands_for).tolist())


def waits_over_time(skew: Skew) -> WaitsOverTime | None:
    """Who waited, and who was waited for, in each part of the run."""
    parts = _parts(skew)
    if parts is None:
        return None
    awaited_s = np.zeros_like(skew.waiting_s)
    awaited_s[skew.last, np.arange(skew.count)] = skew.waiting_s.sum(axis=0) / (len(skew.ranks) - 1)
    waited, awaited = (
        tuple(map(tuple, parts.shares(parts.sums(seconds) * skew.stands_for).tolist()))
        for seconds in (skew.waiting_s, awaited_s)
    )
    return WaitsOverTime(skew.ranks, tuple(parts.edges_s.tolist()), waited, awaited)


@dataclass(frozen=True)
class _Parts:
    """Stretches of exchanges that follow each other; `edges_s`, when each ends, counts from the first one."""

    edges: Ints
    edges_s: Floats

    def sums(self, seconds: Floats) -> Floats:
        """(R, parts) of (R, E)."""
        return np.asarray(np.add.reduceat(seconds[:, 1:], self.edges[:-1] - 1, axis=1))

    def shares(self, seconds: Floats) -> Floats:
        """Of the time that each part took."""
        taken_s = np.broadcast_to(np.diff(self.edges_s), seconds.shape)
        shares = np.divide(seconds, taken_s, out=np.zeros_like(seconds), where=taken_s > 0)
        return np.asarray(np.minimum(shares, 1.0))


def _parts(skew: Skew) -> _Parts | None:
    """None where there is only one exchange."""
    count = min(PARTS, skew.count - 1)
    if count < 1:
        return None
    edges = np.linspace(1, skew.count, count + 1).astype(int)
    return _Parts(edges, (skew.end_ns[edges - 1] - skew.end_ns[0]) / 1e9)
