"""Tells whether a class leads throughout a run or only in its mean: class shares by tenths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfdoctor.facts.steps.tenths import PhaseTenths
from perfdoctor.model.concluded import CLASS_OF_PHASE, Bottleneck
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Phase, StepFacts

# Of the tenths. Of two classes that are level, chance has one lead in nine or ten of ten once in 93 runs.
NEARLY_ALL = 0.9

Classes = Mapping[Bottleneck, float]


@dataclass(frozen=True)
class Steadiness:
    """In how many tenths of the run the class leads that leads in all of it."""

    kind: Bottleneck
    led: int
    tenths: int  # 0 where the run was too short to be cut in ten
    by_avoidable: bool = False  # by what of each class can be saved, and not by its share of the time

    @property
    def held(self) -> bool:
        """Whether it leads in nearly every tenth."""
        return self.tenths > 0 and self.led >= NEARLY_ALL * self.tenths

    def __str__(self) -> str:
        leads = "has the most to save" if self.by_avoidable else "leads"
        return f"{self.kind.value} {leads} in {self.led} of {self.tenths} tenths"


def of_phases(shares: Mapping[Phase, float]) -> dict[Bottleneck, float]:
    """The time of each class, as the phases alone tell it."""
    classes = dict.fromkeys(Bottleneck, 0.0)
    for phase, share in shares.items():
        classes[CLASS_OF_PHASE[phase]] += share
    return classes


def by_tenth(tenths: PhaseTenths | None, step: StepFacts, classes: Classes) -> tuple[Classes, ...]:
    """The class shares of each tenth of the run, which add up to 1; none where the run was too short.

    Samples, windows and counters, which move time from the class of its phase to another, are of the whole
    run. So in each tenth the same part of a class's time is moved as in all of them (`classes`).
    """
    if tenths is None or step.mean_s <= 0:
        return ()
    phases = of_phases({phase: step.share(phase) for phase in Phase})
    stays = {kind: min(1.0, classes[kind] / share) if share > 0 else 1.0 for kind, share in phases.items()}
    comes = {kind: max(0.0, classes[kind] - phases[kind]) for kind in Bottleneck}
    return tuple(_moved(of_phases(shares), stays, comes) for shares in tenths.shares)


def _moved(phases: Classes, stays: Classes, comes: Classes) -> Classes:
    """The time of each class, after what does not stay is shared out among those to which it comes."""
    moved, room = sum(phases[kind] * (1.0 - stays[kind]) for kind in Bottleneck), sum(comes.values())
    if room <= 0:
        return phases
    return {kind: phases[kind] * stays[kind] + moved * comes[kind] / room for kind in Bottleneck}


def led(kind: Bottleneck, tenths: Sequence[Classes], classes: Classes, avoidable: Classes | None) -> int:
    """In how many tenths a class leads: by what is avoidable of each class, or by its share.

    `avoidable`: shares of the whole run; in each tenth the same part of a class is avoidable.
    """
    weights = dict.fromkeys(Bottleneck, 1.0)
    if avoidable is not None:
        weights = {each: avoidable[each] / classes[each] if classes[each] > 0 else 0.0 for each in Bottleneck}
    leaders = [max(Bottleneck, key=lambda each: tenth[each] * weights[each]) for tenth in tenths]
    return leaders.count(kind)
