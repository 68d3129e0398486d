"""What ranks wait for each other for: the class that such waiting is charged to, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator

from perfdoctor.facts.device.charged import move
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.model.ranks import JobFacts

TOLD = 0.05  # of the time; of shorter waiting nothing is said


def charge_waiting(classes: dict[Bottleneck, float], step: StepFacts, job: JobFacts | None) -> None:
    """Charge waiting for a straggler to the class of what made it late.

    Transfers are also slow where other programs have the cores of their threads: that part is compute.
    What ranks wait as one is given more to compute is nobody's computing: all need only the mean. On the
    straggler itself, which waits for nobody, it is what that computes beyond the mean.
    """
    if job is None:
        return
    for kind, lost_s in (*job.waits.items(), (Bottleneck.COMPUTE, job.contention_s)):
        move(classes, lost_s / step.mean_s, Bottleneck.NETWORK, kind)
    move(classes, uneven(job), Bottleneck.COMPUTE, Bottleneck.NETWORK)


def uneven(job: JobFacts | None) -> float:
    """The share of the time that ranks wait for one which has more to compute: gone if all had as much."""
    return job.straggler.uneven if job is not None and job.straggler is not None else 0.0


def on_waiting(step: StepFacts, job: JobFacts | None) -> Iterator[str]:
    """How long ranks wait for the straggler, and what that is charged to."""
    if job is None or job.straggler is None:
        return
    late = job.straggler
    shares = {kind: seconds / step.mean_s for kind, seconds in job.waits.items()}
    waiting = min(1.0, sum(share for kind, share in shares.items() if kind is not Bottleneck.NETWORK))
    further = ""
    if late.uneven >= TOLD:
        waits = "in {:.0%} the others wait for {}" if late.rank == job.shown else "{:.0%} is waiting for {}"
        told = waits.format(late.uneven, late.name)
        yield f"{told}, which has more to compute: with equal work that wait would disappear"
        waiting, further = waiting - late.uneven, "a further "
    if waiting >= TOLD:
        yield f"{further}{waiting:.0%} is waiting for {late.name}, charged to what makes that rank late"
