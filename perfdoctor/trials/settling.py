"""From when on steps count: after what the tweaks of all variants need before they pay, over what recurs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfdoctor.model.measured import Phase
from perfdoctor.model.trial import Execution, Variant
from perfdoctor.runs.types import RunRecords
from perfdoctor.trials import measure
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
    """Steps until all have settled: a whole epoch, of at most `longest_s`, if it is unlike later ones."""
    declared = _declared(variants)
    looks = max((each.waits + 1 for each in declared), default=0)
    steps = measure.warm_up(records, _loading(variants), max(measure.LEAST_WARM_UP, looks))
    every = measure.epoch(records)
    unlike = any(each.first_epoch for each in declared)
    if unlike and every is not None and every * (calibration.step_s or 0.0) <= longest_s:
        return int(every) + steps
    return steps


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
