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
    records: RunRecords,
    variants: Sequence[Variant],
    calibration: Execution,
    longest_s: float,
    longest_steps: int | None = None,
) -> int:
    """Steps until all have settled, of a script that takes `longest_steps` by itself, where that is known.

    Where a first epoch is unlike later ones, it comes first, and so do the first validation, whose passes
    compile as well, and those that a tweak only looks on at: each if it takes `longest_s` at most.
    """
    declared = _declared(variants)
    looks = max((each.waits + 1 for each in declared), default=0)
    steps = measure.warm_up(records, _loading(variants), max(measure.LEAST_WARM_UP, looks))
    if not any(each.first_epoch for each in declared):
        return steps
    validations = _validations(records, max(each.passes for each in declared))
    ends = longest_steps if calibration.ended_early else len(calibration.losses)
    if ends is not None:  # at the end of a script there is only one
        validations = [each for each in validations if ends - each - steps >= LEAST_STEPS]
    step_s = calibration.step_s or 0.0
    firsts = (measure.epoch(records), *validations)
    return steps + int(max((each for each in firsts if each and each * step_s <= longest_s), default=0))


def _validations(records: RunRecords, passes: int) -> list[int]:
    """Steps until each of the first validations is over that hold so many passes, at least one; none without.

    Each is taken to hold as many passes as batches were loaded for the first one, or one.
    """
    found = (boundaries.find(rank.steps) for _, rank in sorted(records.ranks.items()))
    steps = next((steps for steps in found if steps is not None), None)
    if steps is None or not (validates := steps.phases[Phase.VALIDATION] > 0).any():
        return []
    over = [int(step) + 1 for step in np.flatnonzero(validates)]
    batches = steps.counts["batches"]
    own = batches[~validates]
    held = float(batches[over[0] - 1]) - (float(np.median(own)) if len(own) else 0.0)
    needed = max(1, math.ceil(passes / max(1.0, held)))
    every = over[1] - over[0] if len(over) > 1 else measure.epoch(records) or over[0]
    while len(over) < needed and math.isfinite(every):
        over.append(over[-1] + int(every))
    return over[:needed]


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
