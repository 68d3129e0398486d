"""After how many steps a variant that begins later, compiling or starting workers, is ahead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.trial import Execution


def pays_off(originals: Sequence[Execution], variants: Sequence[Execution]) -> int | None:
    """After how many steps, of the original's size, a variant that begins later is ahead; all are measured.

    None where it does not begin later than every original, or never gets ahead.
    """
    if min(map(_begun_s, variants)) <= max(map(_begun_s, originals)):
        return None
    counted = all(each.samples_per_s for each in (*originals, *variants))
    before, after = _TrainingPace.of(originals, counted), _TrainingPace.of(variants, counted)
    if after.rate <= before.rate:
        return None
    late_s = (after.begun_s - after.warm / after.rate) - (before.begun_s - before.warm / before.rate)
    trained = late_s / (1.0 / before.rate - 1.0 / after.rate)
    return math.ceil(max(0.0, trained) / before.step)


@dataclass(frozen=True)
class _TrainingPace:
    """How training goes on, in samples or steps: at t_s, warm + rate * (t_s - begun_s) of them are done."""

    begun_s: float  # from the start of the command to the first measured step
    warm: float  # done by then
    rate: float  # done in a second
    step: float  # done in a step

    @classmethod
    def of(cls, executions: Sequence[Execution], in_samples: bool) -> _TrainingPace:
        step_s = median(each.step_s or math.inf for each in executions)
        rate = median((each.samples_per_s or 0.0) if in_samples else 1.0 / step_s for each in executions)
        warm_up_steps = median(each.warm_up_steps for each in executions)
        return cls(median(map(_begun_s, executions)), warm_up_steps * step_s * rate, rate, step_s * rate)


def _begun_s(execution: Execution) -> float:
    return (execution.start_s or 0.0) + (execution.warm_up_s or 0.0)
