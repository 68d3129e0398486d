"""What is concluded: a bottleneck, a verdict, advice and the gain that it should bring.

A gain is a speedup (1.0 = none), a `share` runs from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Literal

from perfdoctor.model.change import Change
from perfdoctor.model.checked import Checked
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase

CLOSE_TO_ALL = 100.0  # speedup bounds end here: "more than a hundred times" says as much as a larger number


class Bottleneck(str, Enum):
    """The five classes that a second of wall time can be charged to."""

    DATA = "data"
    TRANSFER = "transfer"
    COMPUTE = "compute"
    NETWORK = "network"
    HOST = "host"


CLASS_OF_PHASE: Mapping[Phase, Bottleneck] = {
    Phase.DATA_WAIT: Bottleneck.DATA,
    Phase.HOST_TO_DEVICE: Bottleneck.TRANSFER,
    Phase.FORWARD: Bottleneck.COMPUTE,
    Phase.BACKWARD: Bottleneck.COMPUTE,
    Phase.GRAD_SYNC: Bottleneck.NETWORK,
    Phase.OPTIMIZER: Bottleneck.COMPUTE,
    Phase.VALIDATION: Bottleneck.COMPUTE,
    Phase.CHECKPOINT: Bottleneck.HOST,
    Phase.OTHER: Bottleneck.HOST,
}
# What time that no wrapper is around is charged to, by the kind of its line; all else to the host.
CLASS_OF_KIND: Mapping[str, Bottleneck] = {
    "data": Bottleneck.DATA,
    "freed": Bottleneck.DATA,
    "queue": Bottleneck.DATA,
    "drawn": Bottleneck.DATA,
    "compute": Bottleneck.COMPUTE,
}


def class_of(phase: Phase, kind: str | None = None) -> Bottleneck:
    """What the time of a phase is charged to; that of none, by the `kind` of its line."""
    return CLASS_OF_KIND.get(kind or "", Bottleneck.HOST) if phase is Phase.OTHER else CLASS_OF_PHASE[phase]


class Verdict(str, Enum):
    """What the diagnosis concludes: a bottleneck, or one of three other answers."""

    DATA = "data"
    TRANSFER = "transfer"
    COMPUTE = "compute"
    NETWORK = "network"
    HOST = "host"
    BALANCED = "balanced"
    HEALTHY = "healthy"
    INCONCLUSIVE = "inconclusive"


class Confidence(str, Enum):
    """How far a verdict can be trusted."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True)
class Gain:
    """A predicted speedup of the whole run: 1.0 = none."""

    low: float = 1.0
    likely: float = 1.0
    high: float = 1.0


@dataclass(frozen=True)
class Advice:
    """What a tip returns for these facts.

    `because` holds sentences with numbers. `change` says what it takes out of the step, or None where it is
    about something else than the time of a step. `start_s` is what it saves at each start, in
    seconds. `tweak` is the flag and value of `perfdoctor try`, or None. `code` is the change by hand, written
    for this script where its names are known; `arguments` is the same for TrainingArguments, where they have
    it. `phase` is the one that all of that time lies in, if it is one.
    `spares` are the lines whose time goes as a whole: advice on them comes later, and adds nothing. `leading`
    are lines of `at` that lead to its first one: all of its work is theirs, too.
    `is_choice`: most scripts live without the change, or it is small: told in a sentence, not as a finding.
    """

    because: tuple[str, ...]
    change: Change | None
    at: tuple[Location, ...] = ()
    tweak: str | None = None
    same_result: bool = True
    code: str | None = None
    bottleneck: Bottleneck | None = None  # what the time is charged to, where that is not the tip's own class
    start_s: float | None = None
    phase: Phase | None = None
    arguments: str | None = None
    also: tuple[Bottleneck, ...] = ()  # further classes of time that the change acts on
    spares: tuple[Location, ...] = ()
    leading: tuple[Location, ...] = ()
    takes: float | None = None  # share of the step that all it is about takes: no more is likely to go
    is_choice: bool = False
    gains_like: Bottleneck | None = None  # a class whose measured gains its own is like, if not of its time

    def __post_init__(self) -> None:
        """Name each line once, whichever functions it was seen in."""
        named: dict[tuple[str, int], Location] = {}
        for at in self.at:
            named.setdefault((at.file, at.line), at)
        object.__setattr__(self, "at", tuple(named.values()))

    @property
    def about(self) -> Literal["time", "start", "risk"]:
        """What it is about: time of steps that a change saves, time before the first one, or a risk."""
        if self.change:
            return "time"
        return "risk" if self.start_s is None else "start"


@dataclass(frozen=True)
class Finding:
    """A tip and its advice, ranked by what the step model makes of its change."""

    id: str
    rank: int
    bottleneck: Bottleneck
    title: str
    advice: Advice
    gain: Gain
    checked: Checked = Checked.FACTS  # what the tip was held against, for runs like this one


@dataclass(frozen=True)
class NotJudged:
    """A tip that could not be judged and why."""

    id: str
    because: str


@dataclass(frozen=True)
class OtherTime:
    """Time that no wrapper of the probe is around, by the class that it is charged to.

    Both are shares of wall time. `in_passes` is the part of it that lies between a forward pass and the
    update: the timers have it in those phases, and the rest in `other`.
    """

    classes: Mapping[Bottleneck, float]
    in_passes: float = 0.0

    @property
    def elsewhere(self) -> float:
        """How much of it is charged to another class than its phase suggests: `other` looks like host."""
        charged = sum(share for kind, share in self.classes.items() if kind is not Bottleneck.HOST)
        return max(charged, self.in_passes)


@dataclass(frozen=True)
class Diagnosis:
    """What the step waits for. `classes` are shares of wall time and add up to 1."""

    verdict: Verdict
    share: float  # of the verdict's class; of the largest class where the verdict is no class
    bound: float  # speedup if that class cost nothing
    confidence: Confidence
    because: tuple[str, ...]
    classes: Mapping[Bottleneck, float]
    bounds: Mapping[Bottleneck, float]
    model_error: float | None = None  # (modelled - measured) / measured mean step
    waits_for_ranks: bool = False  # most of that class is waiting for a rank with more to compute
    other: OtherTime | None = None  # None where a device's work tells the classes, and not the phases

    @property
    def names_bottleneck(self) -> bool:
        """Whether the verdict is one of the five classes."""
        return self.verdict.value in set(Bottleneck)

    @property
    def speedup_bound(self) -> float | None:
        """The speedup without the bottleneck, where one is known: what could be saved of computing is not."""
        unbounded = self.verdict is Verdict.COMPUTE or self.bound >= CLOSE_TO_ALL
        return self.bound if self.names_bottleneck and not unbounded else None
