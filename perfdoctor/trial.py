"""The words of a trial: what is changed, what each execution measured, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from perfdoctor.model import Gain, Location

SCHEMA = "perfdoctor.trial/1"


@dataclass(frozen=True)
class Setting:
    """One tweak as asked for. `values` are what its function gets: `value`, and extras by name."""

    tweak: str  # id: `cache-dataset`
    words: tuple[str, ...]  # as typed: ("--workers", "8")
    values: Mapping[str, Any]
    result: str  # what it declares: a word of probe.tweak.RESULTS

    @property
    def module(self) -> str:
        """The name of the tweak's module."""
        return self.tweak.replace("-", "_")


@dataclass(frozen=True)
class Variant:
    """Tweaks that are applied together, or a number of ranks; without any, the script as it is."""

    settings: tuple[Setting, ...] = ()
    ranks: int | None = None  # started by a launcher on this host; None: as the command says

    @property
    def name(self) -> str:
        """As on the command line, or `2 ranks`; `original` without tweaks."""
        if self.ranks is not None:
            return f"{self.ranks} rank{'' if self.ranks == 1 else 's'}"
        return " ".join(self.words) or "original"

    @property
    def words(self) -> tuple[str, ...]:
        """All flags and values."""
        return tuple(word for setting in self.settings for word in setting.words)

    @property
    def tweaks(self) -> dict[str, dict[str, Any]]:
        """What the probe is told: {module's name: {argument: value}}."""
        return {setting.module: dict(setting.values) for setting in self.settings}


ORIGINAL = Variant()


def typed(module: str, values: object) -> str:
    """A tweak that the probe was told, as one types it: `--amp --amp-dtype bf16`."""
    words = [f"--{module.replace('_', '-')}"]
    for name, value in values.items() if isinstance(values, Mapping) else ():
        words.append(str(value) if name == "value" else f"--{name.replace('_', '-')} {value}")
    return " ".join(words)


class Ending(str, Enum):
    """How one execution ended, for the trial."""

    MEASURED = "measured"
    FAILED = "failed"
    OUT_OF_MEMORY = "out of memory"
    TOO_SHORT = "too short"  # it ended by itself before enough steps were measured
    NO_STEPS = "no steps"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Place:
    """Where a tweak changed something, or did not. `because` only where it was left alone."""

    tweak: str
    what: str
    at: Location | None = None
    was: Any = None
    now: Any = None
    because: str | None = None


@dataclass(frozen=True)
class Execution:
    """One execution of one variant. Times are of the slowest rank, and None where nothing was measured."""

    round: int  # from 0
    ending: Ending
    step_s: float | None = None  # mean over the measured steps
    samples_per_s: float | None = None  # over the same time, of all ranks; None where samples are not counted
    steps: int = 0  # measured
    start_s: float | None = None  # from the start of the command to the first step's begin
    warm_up_s: float | None = None  # from the first step's begin to the first measured one's
    warm_up_steps: int = 0
    losses: tuple[float, ...] = ()  # of each step from the very first, of rank 0; NaN where unknown
    applied: tuple[Place, ...] = ()
    left_alone: tuple[Place, ...] = ()
    host_bytes: int | None = None  # the most memory that the command's processes took together
    device_bytes: int | None = None
    broken: tuple[str, ...] = ()  # tweaks that turned themselves off, and why
    ended_early: bool = False
    printed: tuple[float, ...] = ()  # values of --metric, in the order in which they were printed
    error: str | None = None  # in one line
    ended_by: int | None = None  # the signal that interrupted it, and was meant for the whole trial
    ranks: int = 0  # that took steps
    # Mean seconds of a measured step: phases by their names, means over ranks, `grad_sync` parted into
    # `waiting` for the last rank and `moving` with all ranks there. They add up to the mean rank's step.
    phases: Mapping[str, float] = field(default_factory=dict)
    cpu_s: float | None = None  # CPU seconds of a step, of all ranks together without loader workers
    may_differ: tuple[str, ...] = ()  # why a tweak cannot keep here what it promises of the result
    log: str = ""  # the file with what it printed


class Outcome(str, Enum):
    """The verdict on a variant."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference seen"
    CHANGED = "changed the result"
    NO_EFFECT = "no effect"  # its tweaks found nothing to change
    FAILED = "failed"
    OUT_OF_MEMORY = "out of memory"
    NOT_MEASURED = "not measured"  # interrupted before enough rounds


@dataclass(frozen=True)
class Agreement:
    """Losses of a variant against the original's, under one seed, over the steps both have.

    `difference` and `noise` are mean absolute differences relative to the original's mean absolute loss: of
    the variant from the original, and of the original's executions from each other (None with only one).
    """

    same: bool | None  # None: cannot be compared
    difference: float | None = None
    noise: float | None = None
    steps: int = 0
    because: str = ""  # one sentence: what was compared, or why it cannot be


@dataclass(frozen=True)
class Verdict:
    """What came out for one variant, against the original of the same rounds."""

    variant: Variant
    outcome: Outcome
    because: str  # one sentence
    executions: tuple[Execution, ...] = ()
    speedup: Gain | None = None  # interval of the mean ratio; per sample where `per` says so
    confidence: float | None = None  # of that interval: 0.95
    over: tuple[str, ...] = ()  # tweaks of what it was compared with; the original without
    per: str = "step"  # or "sample": what is compared, where the tweak changes what a step holds
    agreement: Agreement | None = None
    metric: tuple[float, float] | None = None  # last --metric printed: original's, variant's (medians)
    predicted: Gain | None = None
    pays_off_steps: int | None = None  # steps after which a longer warm-up is earned back


@dataclass(frozen=True)
class Scaled:
    """A job of so many ranks, each with the batches of one. Compared with the fewest ranks of its trial."""

    ranks: int
    step_s: float | None  # of the slowest rank
    samples_per_s: float | None  # of all ranks together
    speedup: Gain | None = None  # of the job
    efficiency: Gain | None = None  # speedup over how many times as many ranks
    lost: Mapping[str, float] = field(default_factory=dict)  # seconds by which a step is longer, by cause
    bound: str | None = None  # what keeps it from being faster, in a sentence
    expected: bool = False  # not measured: by the ring's law, from the most ranks that were


@dataclass(frozen=True)
class Trial:
    """Everything one `perfdoctor try` found."""

    command: tuple[str, ...]
    originals: tuple[Execution, ...]
    verdicts: tuple[Verdict, ...]
    rounds: int
    steps: int  # measured in each execution
    warm_up_steps: int
    seconds: float  # the whole trial took
    interrupted: bool = False
    stopped_early: bool = False
    notes: tuple[str, ...] = ()  # how files were protected, what was not compared and why
    kept: tuple[str, ...] = ()  # --auto: words of the best command line
    path: str = ""  # the folder with its files
    cwd: str = ""  # where the command ran
    base: Variant = ORIGINAL  # what all were compared with; of a scaling curve, the fewest ranks
    scaling: tuple[Scaled, ...] = ()  # --ranks: the fewest first
    exit_code: int = 0  # of perfdoctor try: other than 0 where something ended the trial before its time
