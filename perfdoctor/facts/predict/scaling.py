"""Predicts training with another number of ranks: how long a step takes then, and what bounds it.

Each rank keeps its samples per step (weak scaling), so its own work stays as it is; the gradient sync grows
by the ring's law, and ranks of one node share its cores. Speedups are of samples per second, against one
rank.
"""

from __future__ import annotations

import math
from dataclasses import replace

from perfdoctor.facts.given import AllRanks
from perfdoctor.facts.predict.step_model import BEST, LIKELY, WORST
from perfdoctor.facts.ranks.gradient_sync import startup_share
from perfdoctor.facts.registry import fact
from perfdoctor.model.concluded import Bottleneck, Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import CpuFacts, Phase, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.model.note import Note
from perfdoctor.model.ranks import JobFacts, ScalePoint

TIMES = (1, 2, 4)  # as many ranks as now: further out, nothing that was measured is left to stand on
LITTLE = 0.05  # of the step: a loss below it is no bound


@dataclass(frozen=True)
class ScaleModel:
    """A rank's step as it was measured with `ranks` of them. Times in seconds per step."""

    ranks: int
    nodes: int
    own_s: float  # all but the gradient sync
    moving_s: float  # the gradient sync with every rank there, hidden or not
    exposed_s: float  # of that, what no computing hides
    waiting_s: float  # for late ranks
    cpu_s: float  # CPU time of the rank and its loader workers
    cores: float  # usable on each node
    fixed: float = 0.5  # share of the gradient sync that any size costs: it grows with a ring's steps
    data_s: float = 0.0  # of `own_s`, waiting for batches
    late: Bottleneck = Bottleneck.HOST  # the class of what makes ranks late

    def step_s(self, ranks: int, case: int = LIKELY) -> float:
        """The step with another number of ranks, on as many nodes."""
        exposed_s = self.exposed(ranks, case)
        alone_s = self.own_s + exposed_s + (self.waiting_s if ranks > 1 else 0.0)
        return max(alone_s, self.wanted_cores(ranks) * self.own_s / self.cores)

    def exposed(self, ranks: int, case: int = LIKELY) -> float:
        """The gradient sync that no computing hides: as much of it is hidden as was."""
        if ranks < 2:
            return 0.0
        grown = self._grown(ranks, case)
        hidden_s = max(0.0, self.moving_s - self.exposed_s)
        return max(self.exposed_s * grown, self.moving_s * grown - hidden_s)

    def _grown(self, ranks: int, case: int) -> float:
        """How many times as long a gradient sync takes: ranks of a ring send 2 (n - 1) / n of the bytes each.

        It does so in 2 (n - 1) steps (Patarasuk and Yuan, 2009); what each of them costs whatever its size
        grows with their number.
        """
        now = max(2, self.ranks)
        bytes_grown = (ranks - 1) / ranks / ((now - 1) / now)
        steps_grown = (ranks - 1) / (now - 1)
        fixed = (0.0, self.fixed, min(1.0, 2 * self.fixed))[case]
        return fixed * steps_grown + (1 - fixed) * bytes_grown

    def wanted_cores(self, ranks: int) -> float:
        """Cores that the ranks of a node would keep busy if there were enough."""
        each_node = math.ceil(ranks / max(1, min(self.nodes, ranks)))
        return each_node * self.cpu_s / self.own_s if self.own_s > 0 else 0.0

    def speedup(self, ranks: int) -> Gain:
        """Of samples per second, against one rank."""
        low, likely, high = sorted(
            ranks * self.step_s(1, case) / self.step_s(ranks, case) for case in (WORST, LIKELY, BEST)
        )
        return Gain(low, likely, high)

    def bound(self, ranks: int) -> tuple[Bottleneck, Note]:
        """What costs most of it."""
        step_s = self.step_s(ranks)
        exposed_s, waiting_s = self.exposed(ranks), self.waiting_s if ranks > 1 else 0.0
        lacking_s = step_s - (self.own_s + exposed_s + waiting_s)
        cores = Note(
            "cores-wanted" if self.nodes == 1 else "cores-wanted-on-nodes",
            {"wanted": self.wanted_cores(ranks), "cores": self.cores},
        )
        losses = (
            (lacking_s, Bottleneck.COMPUTE, cores),
            (exposed_s, Bottleneck.NETWORK, Note("gradient-sync-takes", {"share": exposed_s / step_s})),
            (waiting_s, self.late, Note("waiting-takes", {"share": waiting_s / step_s})),
        )
        lost_s, kind, why = max(losses, key=lambda loss: loss[0])
        if lost_s >= LITTLE * step_s:
            return kind, why
        if self.data_s > LITTLE * self.own_s:
            return Bottleneck.DATA, Note("batches-take", {"share": self.data_s / step_s})
        return Bottleneck.COMPUTE, Note("own-work-takes", {"share": self.own_s / step_s})


def of_job(job: JobFacts, step: StepFacts, cpu: CpuFacts | None) -> ScaleModel | None:
    """The model of a run of several ranks, or None where their gradient sync was not measured."""
    shown = next((rank for rank in job.ranks if rank.rank == job.shown), None)
    sync = job.gradient_sync
    if shown is None or sync is None or shown.mean_s <= 0 or cpu is None:
        return None
    synced_s = shown.seconds.get(Phase.GRAD_SYNC, 0.0)
    cores = (cpu.main_cores or 0.0) + (cpu.worker_cores or 0.0)
    moved = sync.bytes / sync.buckets if sync.buckets else 0.0
    return ScaleModel(
        ranks=job.world,
        nodes=len(job.nodes),
        own_s=max(0.0, shown.mean_s - synced_s),
        moving_s=max(sync.moving_s, shown.moving_s),
        exposed_s=shown.moving_s,
        waiting_s=shown.waiting_s,
        cpu_s=cores * step.mean_s,
        cores=cpu.usable_cores,
        fixed=startup_share(moved),
        data_s=shown.seconds.get(Phase.DATA_WAIT, 0.0),
        late=max(job.waits, key=lambda kind: job.waits[kind], default=Bottleneck.HOST),
    )


@fact
def job_facts(ranks: AllRanks, step: StepFacts, cpu: CpuFacts | Missing) -> JobFacts:
    """What all ranks do, and what to expect of another number of them."""
    known = cpu if isinstance(cpu, CpuFacts) else None
    return replace(ranks.job, scale=points(ranks.job, step, known))


def points(job: JobFacts, step: StepFacts, cpu: CpuFacts | None) -> tuple[ScalePoint, ...]:
    """What to expect of as many ranks as now, and of more."""
    model = of_job(job, step, cpu)
    if model is None or model.own_s <= 0:
        return ()
    counts = [job.world * times for times in TIMES]
    return tuple(
        ScalePoint(count, model.step_s(count), model.speedup(count), *model.bound(count)) for count in counts
    )
