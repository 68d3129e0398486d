"""Predicts training with another number of ranks: how long a step takes then, and what bounds it.

Each rank keeps its samples per step (weak scaling), so its own work stays as it is; the gradient sync grows
by the ring's law, and ranks of one node share its cores. Speedups are of samples per second, against one
rank, which has the cores to itself that it lacked beside the others.
"""

from __future__ import annotations

import math
from dataclasses import replace

from perfdoctor.facts.given import AllRanks
from perfdoctor.facts.host.rank_cores import apart_from, on_node
from perfdoctor.facts.host.training_thread import TrainingThreadFacts
from perfdoctor.facts.predict.contention import SEEN_DOUBT
from perfdoctor.facts.predict.step_model import BEST, LIKELY, WORST
from perfdoctor.facts.ranks.gradient_sync import startup_share
from perfdoctor.facts.registry import fact
from perfdoctor.model.concluded import Bottleneck, Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import CpuFacts, Phase, StepFacts, ThreadFacts
from perfdoctor.model.missing import Missing
from perfdoctor.model.note import Note
from perfdoctor.model.ranks import JobFacts, ScalePoint

TIMES = (1, 2, 4)  # as many ranks as now: further out, nothing that was measured is left to stand on
LITTLE = 0.05  # of the step: a loss below it is no bound
FULL = 0.9  # of a node's cores kept busy by its ranks: from here on one of them may well lack a core
NOTHING = (0.0, 0.0, 0.0)


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
    # of `own_s`: least, likely and most in which the node's other ranks had its cores
    lacked_s: tuple[float, float, float] = NOTHING

    def step_s(self, ranks: int, case: int = LIKELY) -> float:
        """The step with another number of ranks, on as many nodes."""
        waiting_s = self.waiting_s if ranks > 1 else 0.0
        own_s = self.own(ranks, case) + self.exposed(ranks, case) + waiting_s
        return max(own_s, self._each_node(ranks) * self.cpu_s / self.cores)

    def own(self, ranks: int, case: int = LIKELY) -> float:
        """A rank's own work: as measured among as many ranks of its node, faster where there are fewer."""
        others = self._each_node(self.ranks) - 1
        gone = max(0.0, 1.0 - (self._each_node(ranks) - 1) / others) if others else 0.0
        return self.own_s - gone * self.lacked_s[case]

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
        alone_s = self.own(1)
        return self._each_node(ranks) * self.cpu_s / alone_s if alone_s > 0 else 0.0

    def _each_node(self, ranks: int) -> int:
        return math.ceil(ranks / max(1, min(self.nodes, ranks)))

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
        own_s = self.own(1)
        lacking_s = step_s - (own_s + exposed_s + waiting_s)
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
        return Bottleneck.COMPUTE, Note("own-work-takes", {"share": own_s / step_s})


def of_job(
    job: JobFacts,
    step: StepFacts,
    cpu: CpuFacts | None,
    thread: TrainingThreadFacts | None = None,
    threads: int | None = None,
) -> ScaleModel | None:
    """The model of a run of several ranks, or None where their gradient sync was not measured.

    `thread`: how the shown rank's training thread got on; `threads`: with how many its torch computes.
    """
    shown = next((rank for rank in job.ranks if rank.rank == job.shown), None)
    sync = job.gradient_sync
    if shown is None or sync is None or shown.mean_s <= 0 or cpu is None:
        return None
    synced_s = shown.seconds.get(Phase.GRAD_SYNC, 0.0)
    cores = (cpu.main_cores or 0.0) + (cpu.worker_cores or 0.0)
    moved = sync.bytes / sync.buckets if sync.buckets else 0.0
    model = ScaleModel(
        ranks=job.world,
        nodes=len(job.nodes),
        own_s=max(0.0, shown.mean_s - synced_s),
        moving_s=max(sync.moving_s, shown.moving_s),
        exposed_s=shown.moving_s,
        waiting_s=shown.waiting_s,
        cpu_s=cores * step.mean_s,
        cores=on_node(job, shown, cpu.usable_cores),
        fixed=startup_share(moved),
        data_s=shown.seconds.get(Phase.DATA_WAIT, 0.0),
        late=max(job.waits, key=lambda kind: job.waits[kind], default=Bottleneck.HOST),
    )
    here = sum(one.node == shown.node for one in job.ranks)
    if 0 < len(apart_from(job, shown.node, [shown.rank])) == here - 1:
        return model  # no other rank may run on its cores
    if thread is None:
        return replace(model, lacked_s=_perhaps_lacked(model, threads))
    return replace(model, lacked_s=_lacked(model, shown.mean_s, cpu, thread))


def _lacked(
    model: ScaleModel, step_s: float, cpu: CpuFacts, thread: TrainingThreadFacts
) -> tuple[float, float, float]:
    """Seconds of a rank's own work in which the node's other ranks had its cores, as the kernel counted."""
    wanted = thread.on_core + thread.without_core
    if wanted <= 0:
        return NOTHING
    computing_s = model.own_s - min(model.own_s, wanted * step_s) * thread.without_core / wanted
    if cpu.worker_delay and model.data_s > LITTLE * model.own_s:
        # batches that are waited for come sooner as well, if their workers lack no cores
        computing_s = max(computing_s - model.data_s, model.own_s / (1 + cpu.worker_delay))
    ranks = max(0.0, (cpu.busy_cores or 0.0) - (cpu.main_cores or 0.0) - (cpu.worker_cores or 0.0))
    programs = cpu.other_cores or 0.0
    lacked_s = (model.own_s - computing_s) * (ranks / (ranks + programs) if programs > 0 else 1.0)
    most_s = max(0.0, model.own_s - model.cpu_s / model.cores)  # no arrangement does the work in less
    low_s, likely_s, high_s = (min(most_s, lacked_s * times) for times in (1 - SEEN_DOUBT, 1, 1 + SEEN_DOUBT))
    return low_s, likely_s, high_s


def _perhaps_lacked(model: ScaleModel, threads: int | None) -> tuple[float, float, float]:
    """The same where the kernel does not tell: on full cores, what its threads did not run may be that."""
    if model.wanted_cores(model.ranks) < FULL * model.cores:
        return NOTHING
    ran_s = model.cpu_s / min(model.cores, threads or model.cores)
    most_s = max(0.0, model.own_s - ran_s)
    return 0.0, most_s, most_s


@fact
def job_facts(
    ranks: AllRanks,
    step: StepFacts,
    cpu: CpuFacts | Missing,
    thread: TrainingThreadFacts | Missing,
    threads: ThreadFacts | Missing,
) -> JobFacts:
    """What all ranks do, and what to expect of another number of them."""
    model = of_job(
        ranks.job,
        step,
        cpu if isinstance(cpu, CpuFacts) else None,
        thread if isinstance(thread, TrainingThreadFacts) else None,
        threads.intra_op if isinstance(threads, ThreadFacts) else None,
    )
    return replace(ranks.job, scale=points(model))


def points(model: ScaleModel | None) -> tuple[ScalePoint, ...]:
    """What to expect of as many ranks as now, and of more."""
    if model is None or model.own_s <= 0:
        return ()
    counts = [model.ranks * times for times in TIMES]
    return tuple(
        ScalePoint(count, model.step_s(count), model.speedup(count), *model.bound(count)) for count in counts
    )
