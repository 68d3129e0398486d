"""From when on steps count: after what the tweaks of all variants need before they pay, over what recurs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perfdoctor.facts.steps import boundaries
from perfdoctor.model.measured import Phase
from perfdoctor.model.trial import Execution, Variant
from perfdoctor.runs.types import RunRecords
from perfdoctor.trials import measure
from perfdoctor.trials.plan import LEAST_STEPS
from perfdoctor.trials.settings import flags, tweak_catalogue
from perfdoctor.tweaks import COMPILED, EPOCH_BORDERS, VALIDATION, Declared


def _loading(variants: Sequence[Variant]) -> list[dict[str, int]]:
    """Arguments of a DataLoader that the original (none) and each variant set."""
    arguments = [
        {
            name: setting.values[flags.VALUE]
            for setting in variant.settings
            if (name := tweak_catalogue.declared(setting.tweak).loader_argument) is not None
        }
        for variant in variants
    ]
    return [{}, *arguments]


def settled_after(
    records: RunRecords, variants: Sequence[Variant], calibration: Execution, longest_s: float
) -> int:
    """Steps until all have settled.

    Where a first epoch is unlike later ones, it comes first, and so does the first validation, whose passes
    compile as well: each if it takes `longest_s` at most.
    """
    declared = _declared(variants)
    looks = max((each.waits + 1 for each in declared), default=0)
    steps = measure.warm_up(records, _loading(variants), max(measure.LEAST_WARM_UP, looks))
    if not any(each.first_epoch for each in declared):
        return steps
    validation, step_s = _first_validation(records), calibration.step_s or 0.0
    if validation and not calibration.ended_early:
        left = len(calibration.losses) - validation - steps
        validation = validation if left >= LEAST_STEPS else None  # at the end of a script there is only one
    firsts = (measure.epoch(records), validation)
    return steps + int(max((each for each in firsts if each and each * step_s <= longest_s), default=0))


def _first_validation(records: RunRecords) -> int | None:
    """Steps until the first validation is over; None where there was none."""
    found = (boundaries.find(rank.steps) for _, rank in sorted(records.ranks.items()))
    steps = next((steps for steps in found if steps is not None), None)
    if steps is None or not (validating := np.flatnonzero(steps.phases[Phase.VALIDATION] > 0)).size:
        return None
    return int(validating[0]) + 1


def recurring(
    records: RunRecords, variants: Sequence[Variant], calibration: Execution, most_held: float
) -> int | None:
    """Steps of a period that is measured whole; see measure.period.

    For a variant that acts at the borders of epochs it is at least an epoch, though none was over yet.
    """
    period, every = measure.period(records, most_held), measure.epoch(records)
    acts = {each.pays for each in _declared(variants)}
    at_borders = EPOCH_BORDERS in acts or (VALIDATION in acts and not validates(calibration))
    if at_borders and every is not None and math.isfinite(every):
        return max(period or 0, int(every))
    return period


def validates(calibration: Execution) -> bool:
    """Whether the calibration run saw how often the script validates."""
    return calibration.phases.get(Phase.VALIDATION.value, 0.0) > 0.0


def compiles(variant: Variant) -> bool:
    """Whether steps of a variant compile, or search, that do not in the original."""
    return COMPILED in pays(variant)


def pays(variant: Variant) -> dict[str, str]:
    """From when on tweaks of a variant pay, and which of them says so."""
    return {tweak_catalogue.declared(setting.tweak).pays: setting.tweak for setting in variant.settings}


def _declared(variants: Sequence[Variant]) -> list[Declared]:
    """What the tweaks of all variants say of themselves."""
    tweaks = {each.tweak for one in variants for each in one.settings}
    return [tweak_catalogue.declared(each) for each in sorted(tweaks)]
