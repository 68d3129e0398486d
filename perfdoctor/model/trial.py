"""The words of a trial: what is changed, what each execution measured, and what comes out of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from statistics import geometric_mean
from typing import Any

from perfdoctor.model.concluded import Bottleneck, Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.model.note import Remark
from perfdoctor.model.units import count

SCHEMA = "perfdoctor.trial/1"
EFFICIENT = 0.9  # of what as many ranks could bring at most: nobody would look for more
OWN_ERROR = "an error of its own"  # that a tweak withdrew for, in place of what it left to the script
# With fewer rounds nothing is told: two have one degree of freedom, whose 95 % interval is 13 standard errors
# wide to each side.
LEAST_ROUNDS = 3
NARROW = 0.02  # half width of a speedup's interval, relative: more rounds tell nothing that is worth knowing


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
            return count(self.ranks, "rank")
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


def tweak_as_typed(module: str, values: object) -> str:
    """A tweak that the probe was told, as one types it: `--amp --amp-dtype bf16`."""
    words = [f"--{module.replace('_', '-')}"]
    for name, value in values.items() if isinstance(values, Mapping) else ():
        words.append(str(value) if name == "value" else f"--{name.replace('_', '-')} {value}")
    return " ".join(words)


class ExecutionEnd(str, Enum):
    """How one execution ended, for the trial."""

    MEASURED = "measured"
    FAILED = "failed"
    OUT_OF_MEMORY = "out of memory"
    TOO_SHORT = "too short"  # it ended by itself before enough steps were measured
    NO_STEPS = "no steps"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Place:
    """Where a tweak changed something, or did not. `because` only where it left it alone or withdrew."""

    tweak: str
    what: str
    at: Location | None = None
    was: Any = None
    now: Any = None
    because: str | None = None
    step: int | None = None  # steps taken before it withdrew


@dataclass(frozen=True)
class Execution:
    """One execution of one variant. Times are of the slowest rank, and None where nothing was measured."""

    round: int  # from 0
    ending: ExecutionEnd
    step_s: float | None = None  # mean over the measured steps
    samples_per_s: float | None = None  # over the same time, of all ranks; None where samples are not counted
    steps: int = 0  # measured
    # Mean seconds of a step in each of its turns beside the others of its round, NaN where it was
    # disturbed; a single value where it was executed whole.
    turns_s: tuple[float, ...] = ()
    start_s: float | None = None  # from the start of the command to the first step's begin
    warm_up_s: float | None = None  # from the first step's begin to the first measured one's
    warm_up_steps: int = 0
    slow_steps: int = 0  # from its first to its last one that took far longer than others, as by compiling
    losses: tuple[float, ...] = ()  # of each step from the very first, of rank 0; NaN where unknown
    applied: tuple[Place, ...] = ()
    left_alone: tuple[Place, ...] = ()
    withdrawn: tuple[Place, ...] = ()  # was applied, and from some step on no longer
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


@dataclass(frozen=True)
class ExecutionSummary:
    """What the executions of one variant measured, taken together; None where none of them did.

    Times and rates are geometric means, like the speedup; memory is the most that any execution took.
    """

    executions: int  # that were measured
    step_s: float | None
    samples_per_s: float | None
    start_s: float | None
    warm_up_s: float | None
    host_bytes: int | None
    device_bytes: int | None

    @classmethod
    def of(cls, executions: Sequence[Execution]) -> ExecutionSummary:
        """Of the executions that were measured to their end."""
        measured = [execution for execution in executions if execution.ending is ExecutionEnd.MEASURED]
        return cls(
            len(measured),
            _mean(execution.step_s for execution in measured),
            _mean(execution.samples_per_s for execution in measured),
            _mean(execution.start_s for execution in measured),
            _mean(execution.warm_up_s for execution in measured),
            max((execution.host_bytes for execution in measured if execution.host_bytes), default=None),
            max((execution.device_bytes for execution in measured if execution.device_bytes), default=None),
        )


def _mean(values: Iterable[float | None]) -> float | None:
    measured = [value for value in values if value]
    return geometric_mean(measured) if measured else None


def is_narrow(gain: Gain) -> bool:
    """Whether the interval of a measured speedup is as narrow as anyone needs."""
    return gain.high / gain.likely - 1.0 <= NARROW


class Outcome(str, Enum):
    """The verdict on a variant."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference seen"
    CHANGED = "changed the result"
    NO_EFFECT = "no effect"  # its tweaks found nothing to change
    WITHDRAWN = "withdrawn"  # a tweak was applied, and turned itself off before the end
    FAILED = "failed"
    OUT_OF_MEMORY = "out of memory"
    NOT_MEASURED = "not measured"  # interrupted before enough rounds


@dataclass(frozen=True)
class LossEquivalence:
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
class ModelledGain:
    """A predicted speedup as the step model gives it: in a range that nothing has widened."""

    gain: Gain
    acts_on: tuple[Bottleneck, ...]  # classes of time
    device: str  # that the run was watched on: "cpu", or the accelerator's name


@dataclass(frozen=True)
class VariantResult:
    """What came out for one variant, against the original of the same rounds."""

    variant: Variant
    outcome: Outcome
    because: str  # one sentence
    executions: tuple[Execution, ...] = ()
    speedup: Gain | None = None  # interval of the mean ratio; per sample where `per` says so
    confidence: float | None = None  # of that interval: 0.95
    over: tuple[str, ...] = ()  # tweaks of what it was compared with; the original without
    per: str = "step"  # or "sample": what is compared, where the tweak changes what a step holds
    equivalence: LossEquivalence | None = None
    metric: tuple[float, float] | None = None  # last --metric printed: original's, variant's (medians)
    predicted: Gain | None = None
    modelled: ModelledGain | None = None  # the same before its range was widened
    pays_off_steps: int | None = None  # steps after which a longer warm-up is earned back

    @property
    def measured(self) -> ExecutionSummary:
        """What its executions measured together."""
        return ExecutionSummary.of(self.executions)

    @property
    def too_few(self) -> bool:
        """Whether it went well in each of its rounds, and more of them were all that was missing."""
        well = all(execution.ending is ExecutionEnd.MEASURED for execution in self.executions)
        return well and self.outcome is Outcome.NOT_MEASURED and 0 < len(self.executions) < LEAST_ROUNDS


@dataclass(frozen=True)
class Scaled:
    """A job of so many ranks, each with the batches of one. Compared with the fewest ranks of its trial."""

    ranks: int
    step_s: float | None  # of the slowest rank
    samples_per_s: float | None  # of all ranks together
    speedup: Gain | None = None  # of the job
    efficiency: Gain | None = None  # speedup over how many times as many ranks
    lost: Mapping[str, float] = field(default_factory=dict)  # seconds by which a step is longer, by cause
    bound: Remark | None = None  # what keeps it from being faster
    expected: bool = False  # not measured: by the ring's law, from the most ranks that were

    @property
    def is_efficient(self) -> bool:
        """Whether it brings nearly as much as so many ranks can; so it is where that is not known."""
        return self.efficiency is None or self.efficiency.likely >= EFFICIENT


@dataclass(frozen=True)
class Trial:
    """Everything one `perfdoctor try` found."""

    command: tuple[str, ...]
    originals: tuple[Execution, ...]
    verdicts: tuple[VariantResult, ...]
    rounds: int
    steps: int  # measured in each execution
    warm_up_steps: int
    seconds: float  # the whole trial took
    interrupted: bool = False
    stopped_early: bool = False
    notes: tuple[Remark, ...] = ()  # how files were protected, what was not compared and why
    kept: tuple[str, ...] = ()  # --auto: words of the best command line
    path: str = ""  # the folder with its files
    cwd: str = ""  # where the command ran
    base: Variant = ORIGINAL  # what all were compared with; of a scaling curve, the fewest ranks
    scaling: tuple[Scaled, ...] = ()  # --ranks: the fewest first
    exit_code: int = 0  # of perfdoctor try: other than 0 where something ended the trial before its time
    rank_commands: Mapping[int, str] = field(default_factory=dict)  # of a scaling curve: what starts so many

    @property
    def measured(self) -> ExecutionSummary:
        """What the executions of the original measured together."""
        return ExecutionSummary.of(self.originals)

    @property
    def winner(self) -> VariantResult | None:
        """The fastest variant, of those that --auto kept if it kept any; None if nothing is faster.

        Only what was compared with the original counts: --auto compares with what it has kept, too.
        """
        faster = [
            verdict
            for verdict in self.verdicts
            if verdict.outcome is Outcome.FASTER
            and not verdict.over
            and (not self.kept or verdict.variant.words == self.kept)
        ]
        return max(faster, key=lambda verdict: _likely(verdict.speedup), default=None)


def _likely(speedup: Gain | None) -> float:
    return speedup.likely if speedup is not None else 1.0
