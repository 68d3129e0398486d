"""What changes bring, within what the time that they act on allows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from perfdoctor.diagnosis.calibration import PartialGain, bounded, corrected
from perfdoctor.diagnosis.combination import CASES
from perfdoctor.facts.device.device import DeviceFacts, without
from perfdoctor.facts.device.profiler_windows import LATE
from perfdoctor.facts.predict.step_model import StepModel
from perfdoctor.model.change import NOTHING, Change, Estimate
from perfdoctor.model.checked import Checked
from perfdoctor.model.concluded import CLOSE_TO_ALL, Bottleneck, Gain
from perfdoctor.model.widening import Widening


def gain_of(model: StepModel | None, changes: Sequence[Change]) -> Gain:
    """The speedup with these changes; without a model of the step, what is removed from it is simply gone."""
    if not changes:
        return Gain()
    if model is not None:
        return model.gain(*changes)
    shares = [share for each in changes for share in (each.step, each.pauses, each.starts, each.others)]
    low, likely, high = (sum(getattr(share, name) for share in shares) for name in ("low", "likely", "high"))
    return without(low, likely, high)


def calibrated(
    gain: Gain,
    parts: Sequence[PartialGain],
    bounds: Mapping[Bottleneck, float],
    here: Mapping[Bottleneck, Widening],
    *,
    published: bool = False,
    checked: Checked,
    also: Iterable[Bottleneck] = (),
    takes: float | None = None,
) -> Gain:
    """A gain in a range that held measured gains of its kinds; no more is likely than their time allows.

    `here`: what the run's machine knows of them.
    `published`: it holds published ones already, and is widened only by what the machine's own trials know.
    `checked`: what those who advise it were held against.
    `also`: further classes of time that they act on.
    `takes`: the share of the step that all they are about takes, where that is known to be less.
    """
    kinds = {part.kind for part in parts}
    acted_on = kinds.union(also)
    if gain == Gain() or (published and not kinds & here.keys()):
        return within(gain, acted_on, bounds)
    all_gone = math.inf if takes is None or takes >= 1.0 else 1.0 / (1.0 - takes)
    return corrected(gain, parts, here, checked, min(bound_of(acted_on, bounds), all_gone))


def waited_for(device: DeviceFacts | None) -> Estimate | None:
    """What all shorter kernels take together where the device waits for its host; None where it does not."""
    if device is None or not device.host_floor:
        return None
    waited = 1 - device.host_floor
    return Estimate(waited, waited, waited + LATE)


def beside_host(change: Change, device: DeviceFacts | None) -> Change:
    """What shorter kernels take out of a step whose device waits for its host: what that waits for them."""
    most = waited_for(device)
    return change if most is None else replace(change, step=at_most(change.step, most))


def at_most(taken: Estimate, most: Estimate, beside: Estimate = NOTHING) -> Estimate:
    """What is taken, in each case no more than `most` and what others take `beside` it."""
    low, likely, high = (min(taken.at(case), most.at(case) + beside.at(case)) for case in reversed(CASES))
    return Estimate(low, likely, high)


def within(gain: Gain, kinds: Iterable[Bottleneck], bounds: Mapping[Bottleneck, float]) -> Gain:
    """The gain, but no more than if all time of these classes were free."""
    return bounded(gain, bound_of(kinds, bounds))


def bound_of(kinds: Iterable[Bottleneck], bounds: Mapping[Bottleneck, float]) -> float:
    """The gain if all time of these classes were free."""
    left = 1.0 - sum(1.0 - 1.0 / bounds[kind] for kind in kinds)
    return 1.0 / max(left, 1.0 / CLOSE_TO_ALL)
