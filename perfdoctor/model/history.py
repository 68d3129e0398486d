"""The history of a machine: gains that were predicted there, and what trials measured of them."""

from __future__ import annotations

from perfdoctor.model.concluded import Bottleneck, Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.trial import Outcome

SCHEMA = "perfdoctor.history/1"
# Verdicts on the speed of what was predicted: a tweak that changed nothing, or too much, tells nothing of it.
JUDGED = (Outcome.FASTER, Outcome.SLOWER, Outcome.NO_DIFFERENCE)


@dataclass(frozen=True)
class TriedChange:
    """A change whose gain was predicted, and then measured against the original by a trial."""

    epoch_s: float  # when the trial ended, in seconds since 1970
    script: str  # what it is called, without its folder
    script_id: str  # tells scripts of the same name apart
    tweaks: tuple[str, ...]  # as typed: --workers 8
    acts_on: tuple[Bottleneck, ...]  # classes of time
    device: str  # "cpu", or the accelerator's name
    modelled: Gain  # as the step model gives it, before its range was widened
    predicted: Gain  # as it was printed
    measured: Gain  # the interval of the speedup
    outcome: Outcome

    @property
    def is_judged(self) -> bool:
        """Whether it tells how well gains are predicted."""
        return self.outcome in JUDGED

    @property
    def is_covered(self) -> bool:
        """Whether the measured gain lies in the range that was printed."""
        return self.predicted.low <= self.measured.likely <= self.predicted.high

    @property
    def step_error(self) -> float:
        """|predicted - measured| / measured step time."""
        return abs(self.measured.likely / self.predicted.likely - 1.0)


@dataclass(frozen=True)
class TriedKind:
    """How well the gains of changes that act on the same classes of time, on one device, were predicted."""

    acts_on: tuple[Bottleneck, ...]
    device: str
    cases: int  # changes of a script, each by its newest trial
    covered: float  # share of them whose measured gain lies in the printed range
    step_error: float  # median of |predicted - measured| / measured step time
    fitted: bool  # whether ranges of this kind are fitted to them, in runs from now on


@dataclass(frozen=True)
class History:
    """All that is known of the predictions of one machine."""

    path: str  # the file that it is kept in
    changes: tuple[TriedChange, ...]  # newest first
    kinds: tuple[TriedKind, ...]
    unread: int = 0  # lines of the file that are no such change, and were left out
